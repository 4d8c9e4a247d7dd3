"""Data of other formats brought into a data folder.

A folder appears whole or not at all, and one that exists is never touched.
"""

from .coco import from_coco
from .table import from_csv
from .write import Imported

__all__ = ["Imported", "from_coco", "from_csv"]
