"""Sagas as YAML files: steps are commands, with their compensations, probes and before-images. No Python needed.

load_saga("release.yaml")   a definition, to run like any other
remember(journal, registry) makes known again what unfinished sagas of a journal were made from
"""

from __future__ import annotations

from amends.sagafile.definition import FileSaga, load_saga, parse_saga, remember
from amends.sagafile.schema import json_schema

__all__ = ["FileSaga", "json_schema", "load_saga", "parse_saga", "remember"]
