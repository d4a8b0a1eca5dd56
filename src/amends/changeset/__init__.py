"""File work that can be taken back, layer by layer. Knows files, and not sagas."""

from amends.changeset.changeset import Changeset
from amends.changeset.model import Limits, Terms

__all__ = ["Changeset", "Limits", "Terms"]
