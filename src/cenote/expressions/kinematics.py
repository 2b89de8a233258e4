"""Hold the formulas of relativistic kinematics that expressions may use; angles in radians.

All of them compute in double precision, whatever the columns are stored as, and subtract no two numbers that are nearly
equal: two close objects of high momentum have a mass that single precision, or `E² - p²`, would lose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.expressions.arrays import Column
from cenote.jagged import ak, is_awkward

_SMALLEST = float(np.finfo(np.float64).tiny)


def delta_phi(phi_1: Column, phi_2: Column) -> Column:
    """The difference of two azimuths, in [-π, π)."""
    difference = _doubly(np.subtract, phi_1, phi_2)
    turns = np.floor((difference + np.pi) / (2 * np.pi))  # 0 where nothing is to be done: small angles stay exact
    return np.maximum(difference - turns * (2 * np.pi), -np.pi)


def delta_r(eta_1: Column, phi_1: Column, eta_2: Column, phi_2: Column) -> Column:
    """The distance in η and φ."""
    square = _doubly(np.subtract, eta_1, eta_2) ** 2
    return np.sqrt(square + delta_phi(phi_1, phi_2) ** 2)  # hypot takes eight times as long


def transverse_mass(pt_1: Column, phi_1: Column, pt_2: Column, phi_2: Column) -> Column:
    """Of two objects whose masses do not matter, such as a lepton and missing momentum."""
    sine = np.sin(_doubly(np.subtract, phi_1, phi_2) / 2)
    return 2 * np.sqrt(np.maximum(_doubly(np.multiply, pt_1, pt_2), 0)) * np.abs(sine)


def invariant_mass(*values: Column) -> Column:
    """Of two objects: pt, eta, phi of each (masses neglected), or pt, eta, phi, mass of each."""
    half = len(values) // 2
    pt_1, eta_1, phi_1, *mass_1 = values[:half]
    pt_2, eta_2, phi_2, *mass_2 = values[half:]
    # 2(p₁p₂ - p₁·p₂), that is 2pt₁pt₂(cosh Δη - cos Δφ)
    apart = np.sinh(_doubly(np.subtract, eta_1, eta_2) / 2) ** 2 + np.sin(_doubly(np.subtract, phi_1, phi_2) / 2) ** 2
    square = 4 * _doubly(np.multiply, pt_1, pt_2) * apart
    if mass_1:
        square = square + _at_rest(*map(_double, (pt_1, eta_1, mass_1[0], pt_2, eta_2, mass_2[0])))
    return np.sqrt(np.maximum(square, 0))


def _at_rest(pt_1: Column, eta_1: Column, mass_1: Column, pt_2: Column, eta_2: Column, mass_2: Column) -> Column:
    """What the masses add to the square: m₁² + m₂² + 2(E₁E₂ - p₁p₂), the difference written as a sum."""
    momentum_1, momentum_2 = (pt_1 * np.cosh(eta_1)) ** 2, (pt_2 * np.cosh(eta_2)) ** 2
    square_1, square_2 = mass_1**2, mass_2**2
    energies = np.sqrt((momentum_1 + square_1) * (momentum_2 + square_2))
    above = square_1 * momentum_2 + square_2 * momentum_1 + square_1 * square_2
    below = np.maximum(energies + np.sqrt(momentum_1 * momentum_2), _SMALLEST)
    return square_1 + square_2 + 2 * above / below


def cartesian_mass(px: Column, py: Column, pz: Column, energy: Column) -> Column:
    """Zero where rounding (or the detector) makes the square negative."""
    px, py, pz, energy = map(_double, (px, py, pz, energy))
    momentum = np.sqrt(px**2 + py**2 + pz**2)
    return np.sqrt(np.maximum((energy - momentum) * (energy + momentum), 0))


def momentum_x(pt: Column, phi: Column) -> Column:
    """Of an object with this azimuth."""
    return _double(pt) * np.cos(_double(phi))


def momentum_y(pt: Column, phi: Column) -> Column:
    """Of an object with this azimuth."""
    return _double(pt) * np.sin(_double(phi))


def momentum_z(pt: Column, eta: Column) -> Column:
    """Along the beam."""
    return _double(pt) * np.sinh(_double(eta))


def energy(pt: Column, eta: Column, mass: Column) -> Column:
    """Of an object with this mass."""
    return np.sqrt((_double(pt) * np.cosh(_double(eta))) ** 2 + _double(mass) ** 2)


def pseudorapidity(px: Column, py: Column, pz: Column) -> Column:
    """Infinite along the beam, and NaN for a momentum of zero."""
    px, py, pz = map(_double, (px, py, pz))
    return np.arcsinh(pz / np.sqrt(px**2 + py**2))


def _doubly(ufunc: Any, left: Column, right: Column) -> Column:
    """Computed in double precision; numpy converts piece by piece, without copies. Any: a numpy ufunc."""
    if is_awkward(left) or is_awkward(right):
        return ufunc(_double(left), _double(right))
    return ufunc(left, right, dtype=np.float64)


def _double(value: Column) -> Column:
    if is_awkward(value):
        return ak.values_astype(value, np.float64)
    return np.asarray(value, dtype=np.float64) if isinstance(value, np.ndarray) else float(value)
