"""The record of what happened: shown to a person, and proved to a third party."""
