"""Workflows of the kinds that FAST-HEP's examples have: collisions, a detector of dark matter, and planets."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import uproot

from builders.comparison.by_hand import ComparedWorkflow, Numbers, counted, filled
from builders.comparison.files import scatters, write_dimuons, write_planets, write_scatters
from builders.comparison.trigger import PROFILES, TRIGGER_STUDY
from builders.comparison.tutorials import dimuon_mass

SAMPLES = {"data": 300, "dy": 210, "qcd": 7, "ttbar": 130}
ZMUMU = """
version: 1.0
use: {profiles: [hep_debug]}
data:
  defaults: {eventtype: mc, tree_primary: events}
  datasets:
    - name: data
      eventtype: data
      nevents: "300"
      files: [data/CMS/Zmumu/data.root]
    - {name: dy, nevents: "210", files: [data/CMS/Zmumu/dy.root]}
    - {name: qcd, nevents: "7", files: [data/CMS/Zmumu/qcd.root]}
    - {name: ttbar, nevents: "130", files: [data/CMS/Zmumu/ttbar.root]}
sources:
  events:
    kind: root_tree
    tree: events
    stream_type: event_stream
    branches: [EventWeight, Muon_Px, Muon_Py, Muon_Pz, Muon_E, Muon_Iso]
analysis:
  stages:
    - id: BasicVars
      op: hep.define
      params:
        variables:
          - name: Muon_Pt
            expr: "sqrt(Muon_Px ** 2 + Muon_Py ** 2)"
          - name: IsoMuon_Idx
            expr: "(Muon_Iso / Muon_Pt) < 0.10"
    - id: DiMuons
      op: hep.di_object_mass
      params: {collection: Muon, mask: IsoMuon_Idx}
    - id: DiMuonMass
      op: hep.hist
      params:
        dataset_axis: true
        storage: weighted
        axes:
          - name: dimu_mass
            source: DiMuon_Mass
            type: regular
            bins: {low: 60, high: 120, nbins: 60}
        weight_expr: EventWeight
      render: {style: dimuon_mass, when: final}
styles:
  base_counts_data_mc:
    op: hep.render.data_mc
    figure: {size: [12, 12], dpi: 30}
    axes: {ratio: {name: ratio, label: Data/MC, limits: [0.5, 1.5]}}
    legend: {loc: upper right, ncol: 3}
    style:
      experiment: CMS
      datasets:
        data: {label: "Data", color: black, kind: data}
        dy: {label: "DY", color: yellow, kind: signal}
        ttbar: {label: "$t\\\\bar{t}$", color: red, kind: background}
        qcd: {label: "QCD", color: orange, kind: background}
    data_mc:
      data: data
      signals: [dy]
      backgrounds: [qcd, ttbar]
      stack: true
      ratio: true
      histtype_mc: fill
      show_mc_uncertainty: true
  dimuon_mass:
    use: base_counts_data_mc
    with:
      axes:
        x: {name: dimu_mass, label: "$M_{\\\\mu\\\\mu}$ [GeV]", limits: [60, 120]}
        y: {name: events, label: Events, scale: log, limits: [1e-2, 1e5]}
"""


def write_zmumu(folder: Path) -> None:
    for seed, (name, events) in enumerate(SAMPLES.items(), start=10):
        write_dimuons(folder / f"data/CMS/Zmumu/{name}.root", events, seed)


def zmumu(folder: Path) -> Numbers:
    found = {}
    for name in SAMPLES:
        events = uproot.open(folder / f"data/CMS/Zmumu/{name}.root")["events"].arrays()
        events["IsolatedMuon"] = events.Muon_Iso / np.sqrt(events.Muon_Px**2 + events.Muon_Py**2) < 0.10
        found[f"DiMuonMass/{name}"] = filled([(dimuon_mass(events), (60, 60, 120))], events.EventWeight)
    return found


DETECTOR = f"""
version: 2.1
{PROFILES}
data:
  datasets:
    - name: lz_mc
      files:
        - data/LZ/SS_skim_U238.root
        - data/LZ/SS_skim_Th232.root
sources:
  scatters: {{kind: root_tree, tree: Scatters, stream_type: event_stream}}
primary_stream: scatters
fields:
  ss_nSingleScatters: {{stream: scatters, branch: "ss./ss.nSingleScatters"}}
  s1_phd:             {{stream: scatters, branch: "ss./ss.s1Area_phd"}}
  s2_raw:             {{stream: scatters, branch: "ss./ss.s2Area_phd"}}
  s2_corrected:       {{stream: scatters, branch: "ss./ss.correctedS2Area_phd"}}
  s2_xy_corrected:    {{stream: scatters, branch: "ss./ss.correctedS2Area_phd"}}
  s2_x:               {{stream: scatters, branch: "ss./ss.correctedX_cm"}}
  s2_y:               {{stream: scatters, branch: "ss./ss.correctedY_cm"}}
styles:
  default_lz_plot: {{op: hep.render.hist1d, figure: {{dpi: 30}}, style: {{experiment: LZ}}}}
  lz_plot2d:
    use: default_lz_plot
    with: {{op: hep.render.heatmap2d, heatmap2d: {{cbar: true}}}}
analysis:
  stages:
    - id: SelectSS
      op: hep.selection.cutflow
      params: {{selection: {{SS: ["ss_nSingleScatters == 1"]}}}}
    - id: Vars
      op: hep.define
      params:
        variables:
          - {{name: s2_R, expr: "sqrt(s2_x**2 + s2_y**2)"}}
          - {{name: elife_correction, expr: "s2_corrected / s2_xy_corrected"}}
          - {{name: s2_elife, expr: "s2_raw * elife_correction"}}
          - {{name: log10_s2_elife, expr: "log10(s2_elife)"}}
    - id: BoxCut
      op: hep.selection.cutflow
      params:
        selection:
          All:
            - "log10_s2_elife >= 4.0"
            - "log10_s2_elife <= 5.0"
            - "s1_phd >= 150"
            - "s1_phd <= 400"
    - id: H_R
      op: hep.hist
      params:
        axes:
          - {{name: R, type: regular, source: s2_R, bins: {{low: 0, high: 80, nbins: 40}}}}
    - id: H_s1_log10s2
      op: hep.hist
      params:
        axes:
          - {{name: s1, type: regular, source: s1_phd, bins: {{low: 0, high: 1000, nbins: 50}}}}
          - {{name: log10s2, type: regular, source: log10_s2_elife, bins: {{low: 0, high: 7, nbins: 140}}}}
      render:
        style: lz_plot2d
        when: final
        overlays: [{{kind: box, x: [150, 400], y: [4.0, 5.0]}}]
"""


def write_detector(folder: Path) -> None:
    for seed, name in enumerate(("U238", "Th232")):
        write_scatters(folder / f"data/LZ/SS_skim_{name}.root", 300, seed)


def detector(_: Path) -> Numbers:
    parts = [scatters(300, seed) for seed in (0, 1)]
    every = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    single = every["nSingleScatters"] == 1
    s1, size = every["s1Area_phd"][single], np.log10(every["s2Area_phd"][single])
    radius = np.sqrt(every["correctedX_cm"] ** 2 + every["correctedY_cm"] ** 2)[single]
    cuts = [size >= 4, size <= 5, s1 >= 150, s1 <= 400]
    kept = np.all(cuts, axis=0)
    return {
        **counted("SelectSS/lz_mc/SS", [single]),
        **counted("BoxCut/lz_mc/All", cuts),
        "H_R": filled([(radius[kept], (40, 0, 80))]),
        "H_s1_log10s2": filled([(s1[kept], (50, 0, 1000)), (size[kept], (140, 0, 7))]),
    }


PLANETS = """
version: 1.0
use: {profiles: [registry, "fasthep_workshop:registry"]}
data:
  datasets:
    - {name: exoplanets, files: [data/NASA/exoplanets.parquet], eventtype: data}
  defaults: {eventtype: data, tree_primary: planets}
sources:
  planets: {kind: workshop.parquet, stream_type: event_stream}
analysis:
  stages:
    - id: PlanetRows
      op: workshop.tabular.explode
      params:
        fields: [planet_name, planet_radius, planet_period]
        keep_fields: [name]
    - id: EarthSized
      op: workshop.tabular.filter
      params: {expr: "(planet_radius > 0.8) & (planet_radius < 1.2)"}
    - id: Radii
      op: hep.hist
      params: {axes: [{name: radius, type: regular, source: planet_radius, bins: {low: 0.5, high: 1.5, nbins: 10}}]}
    - id: PlanetTable
      op: workshop.tabular.project
      from: EarthSized
      params:
        fields: [name, planet_name, planet_radius, planet_period]
      write:
        - kind: workshop.console_table
          path: snippets/planets.txt
          when: final
          fields: [name, planet_name, planet_radius, planet_period]
          columns:
            - {template: "{name} {planet_name}", header: Planet}
            - {field: planet_radius, header: "Radius [Earth radii]", format: ".3f"}
            - {field: planet_period, header: "Period [days]", format: ".3f"}
          sort_by: [planet_radius, name, planet_name]
          limit: 12
"""


def planets(folder: Path) -> Numbers:
    stars = ak.from_parquet(folder / "data/NASA/exoplanets.parquet").to_list()
    fields = ("planet_radius", "planet_name", "planet_period")
    rows = [(star["name"], *one) for star in stars for one in zip(*(star[field] for field in fields), strict=True)]
    small = [(radius, name, letter, period) for name, radius, letter, period in rows if 0.8 < radius < 1.2]
    lines = [[f"{name} {letter}", f"{radius:.3f}", f"{period:.3f}"] for radius, name, letter, period in sorted(small)]
    return {
        "Radii": filled([(np.array([one[0] for one in small]), (10, 0.5, 1.5))]),
        "PlanetTable:files/snippets/planets.txt": np.array([" ".join(line) for line in lines[:12]]),
    }


EXAMPLES = (
    ComparedWorkflow("Z to mumu", ZMUMU, write_zmumu, zmumu, pictures=3),
    TRIGGER_STUDY,
    ComparedWorkflow("dark matter", DETECTOR, write_detector, detector, pictures=2),
    ComparedWorkflow(
        "exoplanets",
        PLANETS,
        lambda folder: write_planets(folder / "data/NASA/exoplanets.parquet", 160, 4),
        planets,
    ),
)
