"""What a user types: one module per sub-command, each with `register(app)`.

A module holds the command's arguments, its manual and its exit codes; the modules beside this folder do the work.
"""
