"""The exception for a file that cannot be read as a sheet of charges."""


class SheetFault(Exception):
    """The sheet as a whole cannot be read; the text says why, to the person who sent it."""
