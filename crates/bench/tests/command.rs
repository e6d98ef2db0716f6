//! The command as a user meets it, on a temporary directory and on the real tmpfs; and the Cuesta peer against
//! a stand-in for `cuesta` that serves a directory, so that set-up, turns, recovery and tear-down are
//! tested for themselves.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A `cuesta` of shell: a store is a directory, and `run` rewrites paths under /cuesta into it.
const STAND_IN: &str = r#"#!/bin/sh
case "$1" in
--version) echo "stand-in 1" ;;
mkfs) mkdir "$2" && echo "$*" > "$2/../mkfs-arguments" ;;
serve) echo $$ > "$2/pid"; while :; do sleep 0.05; done ;;
status) kill -0 "$(cat "$2/pid")" ;;
stop) kill "$(cat "$2/pid")" ;;
run)
    [ "$2 $4 $5 $6" = "--store --at /cuesta --" ] || exit 2
    store=$3
    shift 6
    for argument; do
        shift
        case "$argument" in /cuesta/*) argument=$store/${argument#/cuesta/} ;; esac
        set -- "$@" "$argument"
    done
    exec "$@" ;;
*) exit 2 ;;
esac
"#;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cuesta-bench")).args(arguments).output().unwrap()
}

fn stand_in(dir: &Path, script: &str) -> String {
    let path = dir.join("cuesta");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn processes_that_mention(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let command_line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&command_line).contains(text).then_some(())
    });
    processes.count()
}

#[test]
fn a_workload_prints_one_line_of_json_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let work_dir = dir.path().join("work");
    let output =
        bench(&["workload", "sqlite-delete", "--dir", work_dir.to_str().unwrap(), "--seconds", "0.05"]);
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said["figures"]["rate"].as_f64().unwrap() > 0.0);
    assert!(!work_dir.exists());
}

/// Counters that stand still, as those of an idle disk.
#[test]
fn commits_are_told_with_what_they_asked_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (work_dir, counters) = (dir.path().join("work"), dir.path().join("stat"));
    std::fs::write(&counters, "1 0 8 1 50 7 400 9 0 1 10 0 0 0 0 20 5\n").unwrap();
    let (work_dir, counters) = (work_dir.to_str().unwrap(), counters.to_str().unwrap());
    let output = bench(&[
        "workload",
        "sqlite-wal",
        "--dir",
        work_dir,
        "--seconds",
        "0.05",
        "--disk-counters",
        counters,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&outcome["figures"]["disk-writes"], &outcome["figures"]["disk-flushes"]),
        (&0.0.into(), &0.0.into())
    );
}

#[test]
fn a_mistake_is_told_in_one_line() {
    let output = bench(&["workload", "nothing", "--dir", "/nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    let output = bench(&["workload", "append-128", "--dir", "/proc/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.starts_with("cuesta-bench: making the directory"), "{errors}");
}

#[test]
fn a_run_on_tmpfs_gives_a_table_and_json() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("deep/bench.json");
    let output = bench(&[
        "run",
        "--peers",
        "tmpfs",
        "--only",
        "start-true,launch",
        "--rounds",
        "1",
        "--json",
        file.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("start /bin/true, in a loop"));
    let report = json(&file);
    assert_eq!(report["lines"].as_array().unwrap().len(), 2);
    assert!(report["lines"][0]["peers"]["tmpfs"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(report["lines"][0]["met"], Value::Null);
}

#[test]
fn works_of_a_subject_are_run_alone_and_without_peers_that_they_say_nothing_about() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bench.json");
    let options = ["--quick", "--rounds", "1", "--peers", "tmpfs,bindfs", "--json", file.to_str().unwrap()];
    let output = bench(&[&["run", "--subject", "calls"][..], &options].concat());
    assert!(output.status.success(), "{output:?}");
    let report = json(&file);
    let works: std::collections::BTreeSet<&str> =
        report["lines"].as_array().unwrap().iter().map(|line| line["work"].as_str().unwrap()).collect();
    assert_eq!(works.into_iter().collect::<Vec<_>>(), ["calls", "foreign"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("bindfs"), "{output:?}");
}

#[test]
fn processes_that_share_are_measured_with_the_longest_wait_of_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bench.json");
    let only = ["run", "--only", "mail-2,readers,touch-parallel", "--quick", "--rounds", "1"];
    let output = bench(&[&only[..], &["--peers", "tmpfs", "--json", file.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let report = json(&file);
    for work in ["mail-2", "readers", "touch-parallel"] {
        let waits: Vec<f64> = report["lines"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|line| line["work"] == work && line["figure"] == "longest-wait")
            .map(|line| line["peers"]["tmpfs"]["max"].as_f64().unwrap())
            .collect();
        assert!(waits.len() == 2 && waits[0] > 0.0, "{work}: {waits:?}");
    }
}

#[test]
fn the_cuesta_peer_takes_turns_is_killed_recovers_and_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bench.json");
    let cuesta = stand_in(dir.path(), STAND_IN);
    let output = bench(&[
        "run",
        "--quick",
        "--cuesta",
        &cuesta,
        "--peers",
        "cuesta,tmpfs",
        "--rounds",
        "2",
        "--only",
        "start-reader,recovery-appends",
        "--json",
        file.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    let report = json(&file);
    let [start, recovery] = &report["lines"].as_array().unwrap()[..] else { panic!("{report}") };
    for peer in ["cuesta", "tmpfs"] {
        assert_eq!(start["peers"][peer]["samples"].as_array().unwrap().len(), 2);
    }
    assert!(start["met"].is_boolean());
    assert_eq!(recovery["peers"]["cuesta"]["samples"].as_array().unwrap().len(), 2);
    assert_eq!(recovery["peers"]["tmpfs"], Value::Null);
    assert_eq!(report["machine"]["cuesta"], "stand-in 1");
    assert_eq!(processes_that_mention(&cuesta), 0);
}

#[test]
fn a_daemon_that_dies_at_once_is_reported_with_its_last_words() {
    let dir = tempfile::tempdir().unwrap();
    let broken = STAND_IN.replace("serve) ", "serve) echo 'the superblock is damaged'; exit 3; ");
    let cuesta = stand_in(dir.path(), &broken);
    let output =
        bench(&["run", "--cuesta", &cuesta, "--peers", "cuesta,tmpfs", "--only", "launch", "--rounds", "1"]);
    assert!(output.status.success(), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("cuesta skipped: cuesta serve ended with exit status: 3: the superblock is damaged"),
        "{errors}"
    );
}

#[test]
fn calls_go_by_a_file_system_that_does_nothing_and_it_is_gone() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !Path::new("/dev/fuse").exists() {
        println!("skipped: needs root, and FUSE");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bench.json");
    let arguments = ["run", "--quick", "--peers", "null,tmpfs", "--rounds", "1", "--only", "calls,untar"];
    let output = bench(&[&arguments[..], &["--json", file.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    let report = json(&file);
    for line in report["lines"].as_array().unwrap() {
        let is_of_null = line["peers"]["null"]["median"].as_f64().is_some_and(|us| us > 0.0);
        assert_eq!(is_of_null, line["work"] == "calls", "{line}");
    }
    assert_eq!(processes_that_mention("serve-null"), 0);
}

#[test]
fn curves_of_tmpfs_give_tables_json_and_plots_that_name_it() {
    let dir = tempfile::tempdir().unwrap();
    let (file, plots) = (dir.path().join("deep/curves.json"), dir.path().join("deep/plots"));
    let arguments = ["curves", "--quick", "--peers", "tmpfs", "--rounds", "1", "--json"];
    let written = [file.to_str().unwrap(), "--out", plots.to_str().unwrap()];
    let output = bench(&[&arguments[..], &written[..]].concat());
    assert!(output.status.success(), "{output:?}");

    let tables = String::from_utf8(output.stdout).unwrap();
    assert!(tables.contains("| in memory | tmpfs |"), "{tables}");
    assert!(tables.contains("| append and fsync, 64 B | ") && !tables.contains("| on a disk |"), "{tables}");
    let report = json(&file);
    let charts = report["charts"].as_array().unwrap();
    for chart in charts {
        let svg =
            std::fs::read_to_string(plots.join(format!("{}-memory.svg", chart["name"].as_str().unwrap())));
        let svg = svg.unwrap();
        let drawn = roxmltree::Document::parse(&svg).unwrap();
        let words: Vec<&str> = drawn.descendants().filter_map(|node| node.text()).map(str::trim).collect();
        assert!(words.contains(&"tmpfs"), "{words:?}");
        for point in chart["peers"]["tmpfs"].as_array().unwrap() {
            assert!(words.contains(&point["at"].as_str().unwrap()), "{point} in {words:?}");
            assert!(point["value"].as_f64().unwrap() > 0.0, "{point}");
        }
    }
    assert_eq!(std::fs::read_dir(&plots).unwrap().count(), charts.len());
}

#[test]
fn a_peer_that_no_plot_shows_is_refused_before_anything_is_set_up() {
    let output = bench(&["curves", "--peers", "tmpfs,null"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "cuesta-bench: --peers: null is in no plot\n");
}

#[test]
fn a_replay_gives_a_table_json_and_a_plot() {
    let dir = tempfile::tempdir().unwrap();
    let (file, plots) = (dir.path().join("replay.json"), dir.path().join("plots"));
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/fio-3.log");
    let output = bench(&[
        "replay",
        trace.to_str().unwrap(),
        "--fast-share",
        "25,100",
        "--json",
        file.to_str().unwrap(),
        "--out",
        plots.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nfio-3.log: ") && text.contains("| benefit |"), "{text}");
    let report = json(&file);
    let tiers = report["traces"][0]["tiers"].as_array().unwrap();
    assert_eq!(tiers.len(), 2);
    for tier in tiers {
        let policies = tier["policies"].as_array().unwrap();
        assert_eq!(policies.len(), 3);
        for policy in policies {
            let misses = policy["misses"]["reads"].as_u64().unwrap();
            assert!(misses >= tier["optimum_misses"].as_u64().unwrap(), "{policy}");
            assert_eq!(misses + policy["hits"]["reads"].as_u64().unwrap(), tier["reads"].as_u64().unwrap());
        }
    }
    let svg = std::fs::read_to_string(plots.join("replay-fio-3-log.svg")).unwrap();
    assert!(svg.contains("optimum") && svg.contains("frequency"), "{svg}");
}

#[test]
fn a_bad_line_of_a_trace_is_told_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("bad.csv");
    std::fs::write(&trace, "1,hm,0,Read,0,4096,1\n1,hm,0,Trim,0,4096,1\n").unwrap();
    let output = bench(&["replay", trace.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    let expected =
        format!("cuesta-bench: {}:2: the kind \"Trim\" is neither Read nor Write\n", trace.display());
    assert_eq!(told, expected);
}
