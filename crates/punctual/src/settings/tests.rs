use super::*;

fn read(file: &str, overrides: Overrides) -> Result<Settings, String> {
    overrides.over(parse(file)?).over(parse(DEFAULTS)?).complete()
}

#[test]
fn the_embedded_file_says_everything() {
    let settings = read("", Overrides::default()).unwrap();
    assert_eq!(settings.http, "127.0.0.1:7400");
    assert_eq!((settings.slots, settings.shards, settings.durability), (16, 64, Durability::Full));
    assert_eq!(settings.attempt_lease, Duration::from_secs(15));
    assert_eq!(settings.look, Duration::from_secs(3600));
    assert_eq!(settings.egress, [Rule::Loopback, Rule::Private]);
    assert_eq!(settings.server, punctual_server::Settings::default(), "the file and the code say the same");
}

#[test]
fn a_server_works_and_calls_only_if_told_to() {
    let overrides = |url: &str| Overrides {
        store: Store { url: Some(url.to_owned()), ..Store::default() },
        ..Overrides::default()
    };
    let settings = Settings::read_for_server(None, overrides("sqlite:/var/lib/x")).unwrap();
    assert_eq!((settings.slots, settings.data.to_str()), (0, Some("/var/lib/x")));
    assert_eq!((settings.egress, settings.tls, settings.insecure), (vec![], None, false));
    let elsewhere =
        Overrides { data: Some("/srv/x".into()), slots: Some(2), ..overrides("sqlite:/var/lib/x") };
    let settings = Settings::read_for_server(None, elsewhere).unwrap();
    assert_eq!((settings.slots, settings.data.to_str()), (2, Some("/srv/x")));
}

#[test]
fn tasks_of_a_worker_reach_private_networks_only_if_told_so() {
    assert_eq!(Settings::read_for_worker(None, Overrides::default()).unwrap().egress, []);
    let egress = Egress { allow: Some(vec!["loopback".to_owned()]) };
    let told = Overrides { egress, ..Overrides::default() };
    assert_eq!(Settings::read_for_worker(None, told).unwrap().egress, [Rule::Loopback]);
}

#[test]
fn the_redis_endpoint_is_on_in_dev_and_off_in_a_server() {
    let dev = Settings::read(None, Overrides::default()).unwrap().resp;
    assert_eq!((dev.listen.as_deref(), dev.is_asked_for), (Some("127.0.0.1:7711"), false));
    assert_eq!((dev.password_file, dev.flush, dev.shutdown), (None, false, false));
    assert_eq!(Settings::read_for_server(None, Overrides::default()).unwrap().resp.listen, None);
    let asked = Overrides {
        resp: RespOverrides { listen: Some("127.0.0.1:0".to_owned()), ..RespOverrides::default() },
        ..Overrides::default()
    };
    for settings in [Settings::read(None, asked.clone()), Settings::read_for_server(None, asked)] {
        let resp = settings.unwrap().resp;
        assert_eq!((resp.listen.as_deref(), resp.is_asked_for), (Some("127.0.0.1:0"), true));
    }
}

#[test]
fn a_file_wins_over_the_defaults_and_the_command_line_over_both() {
    let file = "slots = 4\nhttp = \"127.0.0.1:1\"\n[leases]\nattempt = \"2s\"\n[egress]\nallow = []\n";
    let overrides = Overrides { http: Some("127.0.0.1:0".to_owned()), ..Overrides::default() };
    let settings = read(file, overrides).unwrap();
    assert_eq!((settings.slots, settings.http.as_str()), (4, "127.0.0.1:0"));
    assert_eq!((settings.attempt_lease.as_secs(), settings.shard_lease.as_secs()), (2, 3));
    assert_eq!(settings.egress, []);
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    for (file, named) in [
        ("slot = 4", "slot"),
        ("[store]\nfsync = true", "fsync"),
        ("[lease]\nattempt = \"1s\"", "lease"),
        ("slots = \"many\"", "slots"),
        ("[tls]\ncert = \"a.pem\"", "tls: cert and key go together"),
        ("[tls]\nclient_ca = \"a.pem\"", "tls.client_ca"),
        ("[server]\ninsecure = \"yes\"", "insecure"),
        ("slots = 70000", "slots"),
        ("[progress]\nqueue = \"..\"", "progress.queue"),
        ("[store]\ndurability = \"none\"", "durability"),
        ("[store]\nshards = 4096", "shards"),
        ("[leases]\nattempt = \"1ms\"", "leases"),
        ("[leases]\nattempt = 15", "attempt"),
        ("[clock]\nlook = \"1ms\"", "clock.look"),
        ("[egress]\nallow = \"private\"", "allow"),
        ("[egress]\nallow = [\"http://wiki/\"]", "egress.allow: `http://wiki/` is no place"),
        ("[egress]\ndeny = []", "deny"),
        ("[server]\nconnections = 0", "connections"),
        ("[server]\nrequest_time = \"1ms\"", "request_time"),
        ("[server]\nhost = \"a\"", "host"),
        ("[resp]\nconnections = 0", "resp.connections"),
        ("[resp]\nidle_time = \"1ms\"", "resp.idle_time"),
        ("[resp]\nport = 7711", "port"),
        ("[resp]\nopen = true\npassword_file = \"p\"", "resp.open"),
    ] {
        let error = read(file, Overrides::default()).unwrap_err();
        assert!(error.contains(named), "{file}: {error}");
    }
}

#[test]
fn a_mistake_is_told_with_its_line_and_what_may_have_been_meant() {
    for (file, told) in [
        ("slot = 4", "line 1: slot: unknown field; did you mean `slots`?"),
        (
            "slots = 4\n\n[store]\nfsync = true",
            "line 4: store.fsync: unknown field; known are url, durability, shards",
        ),
        (
            "[leases]\nattempt = 15",
            "line 2: leases.attempt: expected a duration like 30s or 1h30m, found the number 15",
        ),
    ] {
        assert_eq!(read(file, Overrides::default()).unwrap_err(), told);
    }
    assert!(read("slots 4", Overrides::default()).unwrap_err().starts_with("line 1: "));
}
