"""Typed elements: objects with named fields to rows of numbers, and back."""

from .attributes import Category, Count, Flag
from .continuous import Angle, Real
from .element import Schema
from .field import Attribute, Field

__all__ = ["Angle", "Attribute", "Category", "Count", "Field", "Flag", "Real", "Schema"]
