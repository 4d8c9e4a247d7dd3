"""Typed elements: objects with named fields to rows of numbers, and back."""

from .attributes import Attribute, Category, Count, Flag
from .element import Schema
from .fields import Angle, Field, Real

__all__ = ["Angle", "Attribute", "Category", "Count", "Field", "Flag", "Real", "Schema"]
