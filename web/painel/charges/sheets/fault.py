"""Why a file is no sheet of charges."""


class SheetFault(Exception):
    """The sheet as a whole cannot be read; why, for whoever sent it."""
