//! Everything that a run of curves found out.

use super::chart::Chart;
use crate::environment::machine::Machine;
use crate::peers::name::PeerName;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything a run found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this form of JSON.
    pub schema: u32,
    /// The machine it was measured on.
    pub machine: Machine,
    /// Whether it was a quick run.
    pub quick: bool,
    /// Peers that could not be had, and why.
    pub skipped: BTreeMap<PeerName, String>,
    /// The charts.
    pub charts: Vec<Chart>,
    /// By work: peers that failed it, and why.
    pub failures: BTreeMap<&'static str, BTreeMap<PeerName, String>>,
}
