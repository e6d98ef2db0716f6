//! Running a model, and judging it: each mistake that could have been made is made in a process of its own, and some model
//! must fail there.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::atomics::counting;
use crate::mistake;

/// How often threads are preempted where they could go on, at most: the models try all ways with so many. Most mistakes
/// need one or two.
const VARIABLE: &str = "CUESTA_MODEL_PREEMPTIONS";
const PREEMPTIONS: usize = 2;
/// Steps of one run, all threads together. Who needs more turns in a circle.
const STEPS: usize = 20_000;

fn preemptions() -> usize {
    std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(PREEMPTIONS)
}

/// Runs `model` in every way the bound allows. It must make all it shares anew each time.
pub fn explore(name: &str, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = STEPS;
    builder.preemption_bound = Some(preemptions());
    let started = Instant::now();
    builder.check(move || counting(&model));
    eprintln!("{name}: {:.1?}", started.elapsed());
}

/// Makes each mistake the given models could have had; answers those that none of them notices. The models are tests of this
/// program, run by their names.
pub fn unnoticed_mistakes(models: &[(&str, fn())]) -> Vec<String> {
    if std::env::var_os(mistake::VARIABLE).is_some() {
        return Vec::new();
    }
    models.iter().for_each(|(_, run)| run());
    let mistakes = mistake::all();
    eprintln!("{} mistakes could have been made", mistakes.len());
    mistakes.into_iter().filter(|mistake| !is_noticed(mistake, models)).collect()
}

fn is_noticed(mistake: &str, models: &[(&str, fn())]) -> bool {
    let by = models.iter().map(|(name, _)| *name).find(|name| fails(name, mistake));
    eprintln!("{mistake}: {}", by.unwrap_or("NOT NOTICED"));
    by.is_some()
}

fn fails(name: &str, mistake: &str) -> bool {
    let this = std::env::current_exe().expect("a test knows where it lies");
    let status = Command::new(this)
        .args([name, "--exact"])
        .env(mistake::VARIABLE, mistake)
        .env_remove(VARIABLE)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    !status.expect("the test can be run again").success()
}
