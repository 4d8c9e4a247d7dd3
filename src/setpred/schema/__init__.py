"""Typed elements: objects with named fields to rows of numbers, and back."""

from setpred.schema.attributes import Category, Count, Flag
from setpred.schema.continuous import Angle, Real
from setpred.schema.element import Schema
from setpred.schema.field import Attribute, Field

__all__ = ["Angle", "Attribute", "Category", "Count", "Field", "Flag", "Real", "Schema"]
