# A database of sqlite3's in the journal mode that is named: a transaction is a step. Old rows are removed. Several
# processes may do this at once on the same database.
set -euo pipefail
shopt -s inherit_errexit
cd "$PLACE"
# As servers name theirs: what is named from the working directory sqlite3 does not find in the moment in which that has no name.
database=$PLACE/records.db
journal=$2
rows_kept=400

statements() {
    echo ".timeout 100000"
    # It says what mode it has now.
    echo ".output /dev/null"
    echo "PRAGMA journal_mode = $journal;"
    echo ".output stdout"
    echo "PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;"
    echo "CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT);"
    echo "CREATE TEMP TABLE bound (id INTEGER);"
    echo "SELECT 'resume ' || coalesce(max(id), 0) FROM records;"
    while [ ! -e "$STOP" ]; do
        for _ in {1..20}; do
            echo "INSERT INTO records (body) VALUES (hex(randomblob(abs(random()) % 3000)));"
            echo "SELECT 'kept ' || id || ' ' || lower(hex(sha3(body))) FROM records WHERE id = last_insert_rowid();"
        done
        echo "DELETE FROM bound; INSERT INTO bound SELECT max(id) - $rows_kept FROM records;"
        echo "SELECT 'leaves ' || id FROM bound WHERE id > 0;"
        echo "DELETE FROM records WHERE id <= (SELECT id FROM bound);"
        echo "SELECT 'gone ' || id FROM bound WHERE id > 0;"
    done
}

# Who changes the mode while another does is told at once that the database is locked, however long it would wait.
set_mode() {
    local said
    until said=$(sqlite3 -batch -bail "$database" "PRAGMA journal_mode = $journal" 2>&1); do
        case $said in
        *'database is locked'*) ;;
        *) echo "$said" >&2; return 1 ;;
        esac
    done
}

work() {
    set_mode
    statements | stdbuf -oL sqlite3 -batch -bail "$database"
}

look() {
    [ -e "$database" ] || return 0
    [ "$(sqlite3 -batch -bail "$database" 'PRAGMA integrity_check')" = ok ]
    sqlite3 -batch -bail "$database" "
        CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT);
        SELECT 'found ' || id || ' ' || lower(hex(sha3(body))) FROM records;"
}

"$1"
