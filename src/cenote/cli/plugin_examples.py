"""Show every built-in plugin in use, as one would write it in a workflow."""

from __future__ import annotations

from cenote.plugins.kinds import PluginKind

EXAMPLES: dict[PluginKind, dict[str, str]] = {
    PluginKind.OPERATION: {
        "define": """
- id: Speed
  op: define
  params:
    variables:
      - {name: speed, expr: "kilometres / (minutes / 60)"}
""",
        "filter": """
- id: Complete
  op: filter
  params: {expr: "minutes > 1 && kilometres > 0.1"}
""",
        "project": """
- id: Narrow
  op: project
  params: {keep: [speed, hour]}
""",
        "hep.define": """
- id: Variables
  op: hep.define
  params:
    variables:
      - {name: MET, expr: "sqrt(MET_px**2 + MET_py**2)"}
      - {name: nHardMuon, reduce: {op: count_nonzero, over: "Muon_pt > 25"}, dtype: int32}
""",
        "hep.select": """
- id: TwoMuons
  op: hep.select
  params: {selection: ["nMuon >= 2", HLT_IsoMu24]}
""",
        "hep.selection.cutflow": """
- id: Preselection
  op: hep.selection.cutflow
  params:
    weight_expr: weight
    selection:
      All:
        - {label: trigger, expr: HLT_IsoMu24}
        - {label: two muons, expr: "nMuon >= 2"}
        - {label: a hard muon, reduce: {op: any, over: "Muon_pt > 25"}}
""",
        "hep.selection.flag": """
- id: is_signal_region
  op: hep.selection.flag
  params: {selection: ["MET > 100", "nJet >= 2"]}
""",
        "hep.select_objects": """
- id: GoodMuons
  op: hep.select_objects
  params:
    collection: Muon
    output: GoodMuon
    selection: ["pt > 25", "abs(eta) < 2.4"]
    keep: [pt, eta, phi, mass]
""",
        "hep.di_object_mass": """
- id: DimuonMass
  op: hep.di_object_mass
  params: {collection: Muon, mask: "Muon_pt > 20", out_var: DiMuon_mass}
""",
        "hep.hist": """
- id: MuonPt
  op: hep.hist
  params:
    dataset_axis: true
    weight_expr: weight
    axes:
      - {name: pt, type: regular, source: Muon_pt, bins: {nbins: 50, low: 0, high: 150}, label: "$p_T$ [GeV]"}
  render: {op: hep.render.hist1d}
""",
    },
    PluginKind.SOURCE: {
        "root_tree": """
sources:
  events: {kind: root_tree, tree: Events}
""",
        "parquet": """
sources:
  trips: {kind: parquet}
""",
    },
    PluginKind.SINK: {
        "root_tree": """
- id: Skim
  op: hep.select
  params: {selection: ["nMuon >= 2"]}
  write: {kind: root_tree, path: "skims/{dataset}_{part}.root", keep: [Muon_pt, Muon_eta], tree: Events}
""",
        "parquet": """
- id: Skim
  op: filter
  params: {expr: "minutes > 1"}
  write: {kind: parquet, path: "skims/{dataset}_{part}.parquet"}
""",
    },
    PluginKind.RENDERER: {
        "hep.render.hist1d": """
render: {op: hep.render.hist1d, out: muon_pt, axes: {y: {scale: log}}}
""",
        "hep.render.data_mc": """
render:
  op: hep.render.data_mc
  out: dimuon_mass
  style: {experiment: CMS, lumi: 59.8}
  data_mc: {data: data, ratio_ylim: [0.8, 1.2]}
""",
        "hep.render.heatmap2d": """
render: {op: hep.render.heatmap2d, out: eta_phi}
""",
        "hep.render.cutflow_csv": """
render: {op: hep.render.cutflow_csv, out: cutflow.csv}
""",
    },
    PluginKind.MODIFIER: {
        "profile": """
- id: Slow
  op: custom.slow
  execution: {modifiers: [profile]}
""",
    },
}
