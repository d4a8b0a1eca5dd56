"""Sagas that work on files: joins changesets, which know no sagas, to the steps of one."""
