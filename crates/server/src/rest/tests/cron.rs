//! A cron expression, explained over REST.

use serde_json::{Value, json};

use super::{Scene, get_of};

const EXPLAIN: &str = "/api/v1/cron/explain";

async fn explain(scene: &Scene, query: &str) -> Value {
    scene.get(&format!("{EXPLAIN}?{query}")).await.read(200)
}

#[tokio::test]
async fn an_expression_is_explained_in_words_and_instants() {
    let scene = Scene::new().await;
    let found = explain(&scene, "expression=0+1+*+*+*&timezone=Asia/Shanghai&count=2").await;
    assert_eq!(
        found,
        json!({
            "expression": "0 1 * * *",
            "timezone": "Asia/Shanghai",
            "description": "at 01:00 every day (Asia/Shanghai)",
            "next": [
                { "due_at": "2027-01-15T17:00:00.000Z", "local": "2027-01-16T01:00:00+08:00" },
                { "due_at": "2027-01-16T17:00:00.000Z", "local": "2027-01-17T01:00:00+08:00" },
            ],
            "previous": { "due_at": "2027-01-14T17:00:00.000Z", "local": "2027-01-15T01:00:00+08:00" },
        })
    );
    let chinese = explain(&scene, "expression=0+0+13+*+FRI&lang=zh").await;
    assert_eq!(chinese["description"], "每月 13 日或每周五 00:00（UTC）");
    assert_eq!(chinese["next"].as_array().map(Vec::len), Some(5));
}

#[tokio::test]
async fn an_expression_is_explained_by_its_numbering_its_job_and_any_instant() {
    let scene = Scene::new().await;
    let quartz = explain(&scene, "expression=0+0+0+?+*+6L&weekdays=quartz&count=1").await;
    assert_eq!(quartz["description"], "at 00:00 on the last Friday of the month (UTC)");
    let spread = explain(&scene, "expression=H+H+*+*+*&spread_key=default/nightly&count=1").await;
    assert_eq!(spread["description"], "at 00:35 every day (UTC)");
    let gap = "expression=30+2+*+*+*&timezone=America/New_York&from=2026-03-08T00:00:00-05:00&count=1";
    assert_eq!(explain(&scene, gap).await["next"][0]["local"], "2026-03-08T03:00:00-04:00");
    let beat = explain(&scene, "expression=@every+90s&from=2026-01-01T00:00:00Z&count=1").await;
    assert_eq!(beat["next"][0]["due_at"], "2026-01-01T00:01:30.000Z");
    assert_eq!(beat["previous"], Value::Null);
    let over = explain(&scene, "expression=0+0+0+1+1+?+2020").await;
    assert_eq!(
        (&over["next"], &over["previous"]["local"]),
        (&json!([]), &json!("2020-01-01T00:00:00+00:00"))
    );
}

#[tokio::test]
async fn a_question_that_makes_no_sense_names_its_part() {
    let scene = Scene::new().await;
    let rows = [
        ("", "expression"),
        ("expression=", "expression"),
        ("expression=61+*+*+*+*", "expression"),
        ("expression=*+*+*", "expression"),
        ("expression=0+0+30+2+*", "expression"),
        ("expression=H+*+*+*+*", "expression"),
        ("expression=@reboot", "expression"),
        ("expression=@every+soon", "expression"),
        ("expression=%00", "expression"),
        ("expression=0+1+*+*+*&timezone=Mars/Olympus", "timezone"),
        ("expression=0+1+*+*+*&timezone=", "timezone"),
        ("expression=0+1+*+*+*&weekdays=lunar", "weekdays"),
        ("expression=0+1+*+*+*&count=0", "count"),
        ("expression=0+1+*+*+*&count=101", "count"),
        ("expression=0+1+*+*+*&count=x", "count"),
        ("expression=0+1+*+*+*&lang=de", "lang"),
        ("expression=0+1+*+*+*&from=now", "from"),
        ("expression=0+1+*+*+*&from=1969-12-31T00:00:00Z", "from"),
        ("expression=0+1+*+*+*&zone=UTC", "zone"),
        ("expression=0+1+*+*+*&expression=0+2+*+*+*", "expression"),
    ];
    for (query, field) in rows {
        let answer = scene.send(get_of(&format!("{EXPLAIN}?{query}"))).await;
        let problem: Value = answer.read(400);
        assert_eq!(
            (&problem["code"], &problem["field"]),
            (&json!("bad_parameter"), &json!(field)),
            "{query}: {problem}"
        );
    }
}
