//! The sources of a real C project, as cargo fetched them with our own.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::{BenchError, Context};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// The directory of LuaJIT's sources.
pub fn luajit() -> Result<PathBuf, BenchError> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--offline", "--format-version=1", "--filter-platform", &platform])
        .arg("--manifest-path")
        .arg(manifest)
        .output()
        .context("asking cargo where the sources of LuaJIT are")?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("reading what cargo says")?;
    let package = metadata.packages.into_iter().find(|package| package.name == "luajit-src");
    let folder = package.and_then(|package| Some(package.manifest_path.parent()?.join("luajit2")));
    folder
        .filter(|folder| folder.is_dir())
        .ok_or_else(|| BenchError::Unusable("cargo has not fetched the sources of LuaJIT".into()))
}
