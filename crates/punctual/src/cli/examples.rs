//! Examples below the help of a noun.

pub(super) const EXAMPLES: &str = "\
Examples:
  punctual dev                               start a node on this machine
  punctual job apply hello.yaml              create or change the jobs of a file
  punctual run list --job hello              the runs of a job
  punctual run submit --shell 'echo hi'      run a command once, now
  punctual doctor                            check this machine and the server

Exit codes:
  0 done   1 failed   2 wrong usage   3 not found   4 refused   5 the server cannot be reached";

pub(super) const JOB_EXAMPLES: &str = "\
Examples:
  punctual job apply hello.yaml              create or change the jobs of a file
  punctual job list                          the jobs of a namespace
  punctual job next hello                    when a job is due next";

pub(super) const CALENDAR_EXAMPLES: &str = "\
Examples:
  punctual calendar apply cn-workdays.yaml   create or change a calendar
  punctual calendar days cn-workdays         which days it includes, and why";

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  punctual run list --since 1h               what ran in the last hour
  punctual run submit --shell 'echo hi'      run a command once, now
  punctual run logs 4683711365120 -f         its output, until it ends";

pub(super) const DLQ_EXAMPLES: &str = "\
Examples:
  punctual dlq list                          the dead letters of a namespace
  punctual dlq replay 4683711365120          replay it as a new run";

pub(super) const QUEUE_EXAMPLES: &str = "\
Examples:
  echo hello | punctual queue add mail       add a message to a queue
  punctual queue get mail                    take a message
  punctual queue work mail -- ./send         run a command for each message";

pub(super) const LOCK_EXAMPLES: &str = "\
Examples:
  punctual lock nightly-backup -- ./backup.sh
  punctual lock migrations --wait 0s -- ./migrate
  punctual lock list

The command gets PUNCTUAL_FENCE, an empty stdin, and SIGTERM if the lock is lost.
Its exit code is passed on.";

pub(super) const PING_EXAMPLES: &str = "\
Examples:
  punctual ping nightly-backup -- ./backup.sh
  punctual ping nightly-backup
  punctual ping nightly-backup --fail --message 'the disk is full'
  punctual ping nightly-backup --show

The command gets an empty stdin, and runs also if the server cannot be reached. Its exit code is passed on.";

pub(super) const NODE_EXAMPLES: &str = "\
Examples:
  punctual node list                         the nodes of the cluster
  punctual node workers                      the workers, and how busy they are";

pub(super) const TOKEN_EXAMPLES: &str = "\
Examples:
  punctual token add ci --role reader        make a token, and print it once
  punctual token list                        the tokens, without their secrets";

pub(super) const BENCH_EXAMPLES: &str = "\
Examples:
  punctual bench runs                        how many no-op runs a second
  punctual bench lateness                    how late jobs start";

pub(super) const CONFIG_EXAMPLES: &str = "\
Examples:
  punctual config template > punctual.toml   every setting, explained
  punctual config check punctual.toml        check a settings file";
