//! `cuesta quota --directory`, as programs meet it: a directory of a size of its own.

use crate::common::TestFolder;
use serde_json::Value;

/// Runs a script on the store.
fn run(place: &TestFolder, script: &str) -> crate::common::Ended {
    place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script])
}

/// What `cuesta quota --json` says of a directory.
fn quota(place: &TestFolder, directory: &str) -> Value {
    let shown = place.cuesta(&["quota", "store", "--json", "--directory", directory]);
    assert_eq!(shown.status(), 0, "{}", shown.errors());
    serde_json::from_str::<Value>(&shown.text()).unwrap()["directories"][0].clone()
}

#[test]
fn a_directory_is_as_large_as_its_quota() {
    let place = TestFolder::with_store();
    let made = run(
        &place,
        "cd /cuesta; mkdir -p p/old beside; dd if=/dev/zero of=p/old/f bs=4k count=100; ln -s p link",
    );
    assert_eq!(made.status(), 0, "{}", made.errors());
    let set = ["quota", "store", "--directory", "/cuesta/p", "--bytes", "1M", "--inodes", "10"];
    let shown = place.cuesta(&set);
    assert_eq!(shown.status(), 0, "{}", shown.errors());
    assert!(shown.text().contains("/cuesta/p") && shown.text().contains("1.0 MiB"), "{}", shown.text());
    let now = quota(&place, "p");
    assert_eq!(
        (&now["path"], &now["bytes"], &now["inodes"]),
        (&"p".into(), &409_600.into(), &3.into()),
        "{now}"
    );

    let sizes = run(&place, "cd /cuesta; stat -f -c '%b %a' p p/old/f link/. beside");
    let shown: Vec<Vec<u64>> = sizes
        .text()
        .lines()
        .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
        .collect();
    assert_eq!(shown[..3], [[256, 156], [256, 156], [256, 156]], "{}", sizes.errors());
    assert!(shown[3][0] > 256, "{shown:?}");

    let filled = run(&place, "cd /cuesta/p; mkdir new; dd if=/dev/zero of=new/large bs=4k count=300");
    let errors = filled.errors();
    assert!(errors.contains("No space left on device") && errors.contains("156+0 records out"), "{errors}");
    let many = run(&place, "cd /cuesta/p; for i in $(seq 20); do touch f$i; done; find . | wc -l");
    assert_eq!(many.text(), "10\n", "{}", many.errors());

    // By itself a name does not cross; mv copies.
    let renamed = run(&place, "cd /cuesta; python3 -c 'import os; os.rename(\"p/f1\", \"beside/f1\")'");
    assert!(renamed.errors().contains("Invalid cross-device link"), "{}", renamed.errors());
    let linked = run(&place, "cd /cuesta; ln p/f1 beside/f1");
    assert!(linked.errors().contains("Invalid cross-device link"), "{}", linked.errors());
    let moved = run(&place, "cd /cuesta; mv p/old beside && mv beside/old/f p/back && ls p beside/old");
    assert_eq!(moved.status(), 0, "{}", moved.errors());
    place.kill_daemon();
    let now = quota(&place, "p");
    assert_eq!((&now["bytes"], &now["inodes"]), (&(1 << 20).into(), &9.into()), "{now}");
    let whole = place.cuesta(&["quota", "store"]);
    assert!(whole.text().contains("directory") && whole.text().contains("user"), "{}", whole.text());

    place
        .cuesta(&["quota", "store", "--directory", "none", "--bytes", "1M"])
        .refused(1, &["none", "no such directory"]);
    place
        .cuesta(&["quota", "store", "--directory", "p/f1", "--bytes", "1M"])
        .refused(1, &["only a directory"]);
    place.cuesta(&["quota", "store", "--directory", "/elsewhere", "--bytes", "1M"]).refused(2, &["/cuesta"]);
    assert_eq!(place.cuesta(&["quota", "store", "--directory", "p", "--user", "root"]).status(), 2);
    assert_eq!(place.cuesta(&["quota", "store", "--directory", "p", "--no-limits"]).status(), 0);
    assert_eq!(quota(&place, "p"), Value::Null);
    assert_eq!(
        run(&place, "cd /cuesta; mv p/f1 beside; dd if=/dev/zero of=p/more bs=4k count=300").status(),
        0
    );
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    let checked = place.cuesta(&["fsck", "store"]);
    assert_eq!(checked.status(), 0, "{}", checked.text());
}

#[test]
fn a_soft_limit_is_exceeded_for_its_grace_which_is_shown() {
    let place = TestFolder::with_store();
    assert_eq!(run(&place, "mkdir /cuesta/p").status(), 0);
    let set = |arguments: &[&str]| {
        let shown = place.cuesta(&[&["quota", "store", "--directory", "p"], arguments].concat());
        assert_eq!(shown.status(), 0, "{}", shown.errors());
        shown.text()
    };
    let write = |name: &str, kilobytes: u32| {
        run(&place, &format!("dd if=/dev/zero of=/cuesta/p/{name} bs=1k count={kilobytes}"))
    };
    set(&["--bytes", "1M", "--soft-bytes", "100K"]);
    assert_eq!(write("within", 96).status(), 0);
    let now = quota(&place, "p");
    assert_eq!((&now["bytes_soft"], &now["grace"]), (&102_400.into(), &604_800.into()), "{now}");
    assert_eq!(now["bytes_grace_left"], Value::Null, "{now}");
    assert_eq!(write("beyond", 100).status(), 0);
    place.kill_daemon();
    let left = quota(&place, "p")["bytes_grace_left"].as_u64().unwrap();
    assert!((600_000..=604_800).contains(&left), "{left} s");
    let shown = set(&["--soft-inodes", "50"]);
    assert!(shown.contains("6d23h") || shown.contains("7d"), "{shown}");

    // From now on there is none: writes over the soft limit are refused, the rest goes on.
    let shown = set(&["--grace", "0"]);
    assert!(shown.contains("over"), "{shown}");
    assert_eq!(quota(&place, "p")["bytes_grace_left"], 0);
    let refused = write("more", 4);
    assert!(refused.errors().contains("No space left on device"), "{}", refused.errors());
    assert_eq!(run(&place, "cd /cuesta/p; rm beyond; mkdir d").status(), 0);
    assert_eq!(write("more", 4).status(), 0);
    let now = quota(&place, "p");
    assert_eq!((&now["bytes_grace_left"], &now["bytes_limit"]), (&Value::Null, &(1 << 20).into()), "{now}");
    let wrong = place.cuesta(&["quota", "store", "--directory", "p", "--grace", "7"]);
    assert!(wrong.status() == 2 && wrong.errors().contains("7d, 12h"), "{}", wrong.errors());
    // One of nothing would be forgotten.
    for whose in [["--user", "1234"], ["--directory", "p"]] {
        if whose[0] == "--directory" {
            set(&["--soft-bytes", "0", "--soft-inodes", "0"]);
        }
        let none = place.cuesta(&[&["quota", "store"][..], &whose, &["--grace", "3d"]].concat());
        none.refused(2, &["--grace", "no soft limit", "--soft-bytes"]);
    }
    let known =
        place.cuesta(&["quota", "store", "--json", "--user", "1234", "--grace", "3d", "--soft-inodes", "9"]);
    assert!(known.text().contains("259200"), "{}", known.text());
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
}

/// Others come and work while it is set: no call fails, and nothing is left out.
#[test]
fn programs_that_run_while_it_is_set_go_on() {
    let place = TestFolder::with_store();
    assert_eq!(run(&place, "mkdir -p /cuesta/p").status(), 0);
    let script = "cd /cuesta/p; for d in $(seq 40); do mkdir -p $1/$d || exit 1; for f in $(seq 20); do echo $f >$1/$d/$f || exit 1; done; mv $1/$d $1/m$d || exit 1; done";
    let programs: Vec<_> = ["a", "b"]
        .iter()
        .map(|name| {
            let mut command =
                place.command(&["run", "--store", "store", "--", "sh", "-c", script, "sh", name]);
            command.stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for round in 0..12 {
        let change: &[&str] = if round % 2 == 0 { &["--bytes", "1G"] } else { &["--no-limits"] };
        let set = [&["quota", "store", "--directory", "p"], change].concat();
        let changed = place.cuesta(&set);
        assert_eq!(changed.status(), 0, "{}", changed.errors());
    }
    for program in programs {
        let ended = program.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(place.cuesta(&["quota", "store", "--directory", "p", "--bytes", "1G"]).status(), 0);
    assert_eq!(quota(&place, "p")["inodes"], 1 + 2 * (1 + 40 * 21));
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    let checked = place.cuesta(&["fsck", "store"]);
    assert_eq!(checked.status(), 0, "{}", checked.text());
}
