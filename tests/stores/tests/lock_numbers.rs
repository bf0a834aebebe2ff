//! What slots are called among the locks of a database: the same as in other programs that share them.

use guard_conformance::advisory_rows;
use guard_mysql::lock_name;
use guard_postgres::lock_number;

#[test]
fn every_slot_has_the_number_of_the_vectors() {
    let rows = advisory_rows();
    assert!(rows.len() >= 15);
    for row in rows {
        assert_eq!(lock_number(&row.slot), row.number, "{row:?}");
    }
}

#[test]
fn every_slot_has_the_name_of_the_vectors() {
    for row in advisory_rows() {
        assert_eq!(lock_name(&row.slot), row.name, "{row:?}");
    }
}
