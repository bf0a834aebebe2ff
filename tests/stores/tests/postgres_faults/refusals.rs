//! What only PostgreSQL refuses.

use guard_postgres::PostgresSandboxExecutionGuard;

#[test]
fn what_is_wrong_with_an_address_is_said() {
    for (address, expected) in [
        ("", "it names no host"),
        ("user=app", "it names no host"),
        ("nonsense", "the form is postgres://"),
        ("postgres://u@h/d?sslmode=verify-full", "`sslmode`"),
        ("postgres://u@h/d?sslmode=require", "`sslmode=require`"),
        ("postgres://u@h/d?unheard=1", "an option that is not known"),
        (
            "host=h user=u password=sword fish=1",
            "an option that is not known",
        ),
    ] {
        let error = PostgresSandboxExecutionGuard::builder(address).build();
        let error = error.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("setting `address`"), "{text}");
        assert!(text.contains(expected), "{expected} not in {text}");
        assert!(!text.contains("fish"), "{text}");
    }
}
