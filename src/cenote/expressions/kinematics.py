"""This file holds the formulas of relativistic kinematics that expressions may use; angles in radians."""

from __future__ import annotations

import numpy as np

from cenote.expressions.arrays import Column


def delta_phi(phi_1: Column, phi_2: Column) -> Column:
    """The difference of two azimuths, in [-π, π)."""
    return (phi_1 - phi_2 + np.pi) % (2 * np.pi) - np.pi


def delta_r(eta_1: Column, phi_1: Column, eta_2: Column, phi_2: Column) -> Column:
    """The distance in η and φ."""
    return np.hypot(eta_1 - eta_2, delta_phi(phi_1, phi_2))


def transverse_mass(pt_1: Column, phi_1: Column, pt_2: Column, phi_2: Column) -> Column:
    """Of two objects whose masses do not matter, such as a lepton and missing momentum."""
    return np.sqrt(np.maximum(2 * pt_1 * pt_2 * (1 - np.cos(delta_phi(phi_1, phi_2))), 0))


def invariant_mass(*values: Column) -> Column:
    """Of two objects: pt, eta, phi of each (masses neglected), or pt, eta, phi, mass of each."""
    half = len(values) // 2
    pt_1, eta_1, phi_1, *mass_1 = values[:half]
    pt_2, eta_2, phi_2, *mass_2 = values[half:]
    along_1, along_2 = np.sinh(eta_1), np.sinh(eta_2)
    square_1, square_2 = (mass[0] ** 2 if mass else 0.0 for mass in (mass_1, mass_2))
    energies = np.sqrt((pt_1**2 * (1 + along_1**2) + square_1) * (pt_2**2 * (1 + along_2**2) + square_2))
    product = energies - pt_1 * pt_2 * (np.cos(phi_1 - phi_2) + along_1 * along_2)
    return np.sqrt(np.maximum(square_1 + square_2 + 2 * product, 0))


def cartesian_mass(px: Column, py: Column, pz: Column, energy: Column) -> Column:
    """Zero where rounding (or the detector) makes the square negative."""
    return np.sqrt(np.maximum(energy**2 - (px**2 + py**2 + pz**2), 0))
