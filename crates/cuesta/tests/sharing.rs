//! Programs that work side by side in one store.

mod common;

use common::Place;
use serde_json::Value;

const FILES: usize = 2000;

fn status(place: &Place) -> Value {
    serde_json::from_str(&place.cuesta(&["status", "--json", "store"]).text()).unwrap()
}

/// Two programs share the directories above their own ones, and only those: they must not take them from each
/// other again and again.
#[test]
fn programs_in_directories_of_their_own_leave_each_other_alone() {
    let place = Place::with_store();
    let made = place.cuesta(&["run", "--store", "store", "--", "mkdir", "/cuesta/a", "/cuesta/b"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let before = status(&place)["fences"].as_u64().unwrap();
    let programs = ["a", "b"].map(|directory| {
        let script = format!(
            "i=0; while [ $i -lt {FILES} ]; do : >/cuesta/{directory}/$i; i=$((i+1)); done; ls /cuesta/{directory} | wc -l"
        );
        let mut command = place.command(&["run", "--store", "store", "--", "sh", "-c", &script]);
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    });
    for program in programs {
        let ended = program.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), FILES.to_string());
    }
    let status = status(&place);
    let fences = status["fences"].as_u64().unwrap() - before;
    assert!(fences < 20, "{fences} fences for {FILES} files each; {}", status["requests"]);
}
