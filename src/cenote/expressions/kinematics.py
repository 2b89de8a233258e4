"""This file holds the formulas of relativistic kinematics that expressions may use; angles in radians.

All of them compute in double precision, whatever the columns are stored as, and subtract no two numbers that are nearly
equal: two close objects of high momentum have a mass that single precision, or `E² - p²`, would lose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import awkward as ak
import numpy as np

from cenote.expressions.arrays import Column, plain

_SMALLEST = float(np.finfo(np.float64).tiny)


def _in_double_precision(formula: Callable[..., Column]) -> Callable[..., Column]:
    @wraps(formula)
    def computed(*values: Column) -> Column:
        return plain(formula(*map(_double, values)))

    return computed


def _double(value: Column) -> Column:
    if isinstance(value, ak.Array):
        return ak.values_astype(value, np.float64)
    return np.asarray(value, dtype=np.float64) if isinstance(value, np.ndarray) else float(value)


@_in_double_precision
def delta_phi(phi_1: Column, phi_2: Column) -> Column:
    """The difference of two azimuths, in [-π, π)."""
    difference = phi_1 - phi_2
    turns = np.floor((difference + np.pi) / (2 * np.pi))  # 0 where nothing is to be done: small angles stay exact
    return np.maximum(difference - turns * (2 * np.pi), -np.pi)


@_in_double_precision
def delta_r(eta_1: Column, phi_1: Column, eta_2: Column, phi_2: Column) -> Column:
    """The distance in η and φ."""
    return np.sqrt((eta_1 - eta_2) ** 2 + delta_phi(phi_1, phi_2) ** 2)  # hypot takes eight times as long


@_in_double_precision
def transverse_mass(pt_1: Column, phi_1: Column, pt_2: Column, phi_2: Column) -> Column:
    """Of two objects whose masses do not matter, such as a lepton and missing momentum."""
    return 2 * np.sqrt(np.maximum(pt_1 * pt_2, 0)) * np.abs(np.sin((phi_1 - phi_2) / 2))


@_in_double_precision
def invariant_mass(*values: Column) -> Column:
    """Of two objects: pt, eta, phi of each (masses neglected), or pt, eta, phi, mass of each."""
    half = len(values) // 2
    pt_1, eta_1, phi_1, *mass_1 = values[:half]
    pt_2, eta_2, phi_2, *mass_2 = values[half:]
    # p₁p₂ - p₁·p₂, that is pt₁pt₂(cosh Δη - cos Δφ)
    apart = 2 * pt_1 * pt_2 * (np.sinh((eta_1 - eta_2) / 2) ** 2 + np.sin((phi_1 - phi_2) / 2) ** 2)
    square = 2 * apart
    if mass_1:
        square = square + _at_rest(pt_1, eta_1, mass_1[0], pt_2, eta_2, mass_2[0])
    return np.sqrt(np.maximum(square, 0))


def _at_rest(pt_1: Column, eta_1: Column, mass_1: Column, pt_2: Column, eta_2: Column, mass_2: Column) -> Column:
    """What the masses add to the square: m₁² + m₂² + 2(E₁E₂ - p₁p₂), the difference written as a sum."""
    momentum_1, momentum_2 = (pt_1 * np.cosh(eta_1)) ** 2, (pt_2 * np.cosh(eta_2)) ** 2
    square_1, square_2 = mass_1**2, mass_2**2
    energies = np.sqrt((momentum_1 + square_1) * (momentum_2 + square_2))
    above = square_1 * momentum_2 + square_2 * momentum_1 + square_1 * square_2
    below = np.maximum(energies + np.sqrt(momentum_1 * momentum_2), _SMALLEST)
    return square_1 + square_2 + 2 * above / below


@_in_double_precision
def cartesian_mass(px: Column, py: Column, pz: Column, energy: Column) -> Column:
    """Zero where rounding (or the detector) makes the square negative."""
    momentum = np.sqrt(px**2 + py**2 + pz**2)
    return np.sqrt(np.maximum((energy - momentum) * (energy + momentum), 0))
