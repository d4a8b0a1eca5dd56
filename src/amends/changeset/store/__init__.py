"""The state directory: changesets, contents and the queue of landings, kept beside the tree."""
