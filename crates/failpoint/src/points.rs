//! The points, in the order of what they are about: stores, the node, peers, workers.
//!
//! The first word of a name says who comes by there: a node on that store, any node, a worker.

macro_rules! points {
    ($($(#[doc = $what:literal])* $point:ident = $name:literal,)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point {
            $($(#[doc = $what])* $point,)+
        }

        impl Point {
            pub const ALL: &[Point] = &[$(Point::$point),+];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Point::$point => $name,)+
                }
            }
        }
    };
}

points! {
    /// The tables are to be made or brought up to date, and nothing is.
    SqliteMigrateBegun = "sqlite.migrate.begun",
    /// They are, and nobody but this transaction sees them.
    SqliteMigrateMade = "sqlite.migrate.made",
    SqliteMigrateDone = "sqlite.migrate.done",
    /// A transaction is open, its fence not passed.
    SqliteCommitBegun = "sqlite.commit.begun",
    /// The fence of a batch is passed, none of its rows written.
    SqliteCommitFenced = "sqlite.commit.fenced",
    /// All rows are written, `COMMIT` is not said.
    SqliteCommitWritten = "sqlite.commit.written",
    /// `COMMIT` is done; the mark of what was acknowledged is not.
    SqliteCommitCommitted = "sqlite.commit.committed",
    /// The mark is made, too; nobody was answered.
    SqliteCommitAcknowledged = "sqlite.commit.acknowledged",
    /// New epochs are written, and not committed.
    SqliteAcquireWritten = "sqlite.acquire.written",
    SqliteAcquireCommitted = "sqlite.acquire.committed",

    PostgresMigrateBegun = "postgres.migrate.begun",
    PostgresMigrateMade = "postgres.migrate.made",
    PostgresMigrateDone = "postgres.migrate.done",
    /// Nothing of the transaction is sent.
    PostgresCommitBegun = "postgres.commit.begun",
    /// Fences, rows and `COMMIT` are on their way; nothing is answered.
    PostgresCommitUnderWay = "postgres.commit.under_way",
    PostgresCommitCommitted = "postgres.commit.committed",
    /// Former owners are ended, and nothing acquired.
    PostgresAcquireBegun = "postgres.acquire.begun",
    PostgresAcquireUnderWay = "postgres.acquire.under_way",
    PostgresReleaseUnderWay = "postgres.release.under_way",
    PostgresRenewUnderWay = "postgres.renew.under_way",

    /// Between any two statements: data definition is not transactional there.
    MysqlMigrateStatement = "mysql.migrate.statement",
    /// A migration is done and not yet written down.
    MysqlMigrateMade = "mysql.migrate.made",
    /// The tables are there, the shards are not.
    MysqlMigrateShards = "mysql.migrate.shards",
    MysqlMigrateDone = "mysql.migrate.done",
    MysqlCommitBegun = "mysql.commit.begun",
    /// Fences passed and rows written, `COMMIT` not said.
    MysqlCommitWritten = "mysql.commit.written",
    /// `COMMIT` is on its way.
    MysqlCommitUnderWay = "mysql.commit.under_way",
    MysqlCommitCommitted = "mysql.commit.committed",
    MysqlAcquireBegun = "mysql.acquire.begun",
    MysqlAcquireWritten = "mysql.acquire.written",
    MysqlAcquireCommitted = "mysql.acquire.committed",
    MysqlReleaseWritten = "mysql.release.written",
    MysqlRenewUnderWay = "mysql.renew.under_way",

    /// The first start of a server: no token is made, one of two, both and neither is told.
    FirstStartBegun = "first_start.begun",
    FirstStartHalf = "first_start.half",
    FirstStartMade = "first_start.made",

    NodeRenewBegun = "node.renew.begun",
    NodeRenewDone = "node.renew.done",
    NodeAcquireBegun = "node.acquire.begun",
    NodeAcquireDone = "node.acquire.done",
    NodeLoadBegun = "node.load.begun",
    NodeLoadDone = "node.load.done",
    NodePageBegun = "node.page.begun",
    NodePageDone = "node.page.done",
    NodeFetchBegun = "node.fetch.begun",
    NodeFetchDone = "node.fetch.done",
    /// A command has come, and the shard knows nothing of it.
    NodeCommandTaken = "node.command.taken",
    /// The shard has decided; the store knows nothing of it.
    NodeCommandApplied = "node.command.applied",
    /// What a worker says has come, and the shard knows nothing of it.
    NodeReportTaken = "node.report.taken",
    NodeReportApplied = "node.report.applied",
    /// Something is due, and the shard has not looked.
    NodeTimerTaken = "node.timer.taken",
    NodeTimerApplied = "node.timer.applied",
    /// A batch is sealed: memory has changed, the store has not (R89).
    NodeCommitBegun = "node.commit.begun",
    /// The batch is durable; nothing of it was said to anybody.
    NodeCommitDone = "node.commit.done",
    NodeAnswerBegun = "node.answer.begun",
    NodeAnswerDone = "node.answer.done",
    NodeOrderBegun = "node.order.begun",
    NodeOrderDone = "node.order.done",
    NodeReleaseBegun = "node.release.begun",
    /// A shard is given up, its heir not woken.
    NodeReleaseReleased = "node.release.released",
    NodeReleaseDone = "node.release.done",
    NodeLeaveBegun = "node.leave.begun",
    NodeLeaveDone = "node.leave.done",

    /// A command is for another node, and not sent.
    NodeForwardBegun = "node.forward.begun",
    NodeForwardUnderWay = "node.forward.under_way",
    NodeForwardAnswered = "node.forward.answered",
    /// The other side of it: asked by a peer, and not carried out.
    NodePeerAsked = "node.peer.asked",
    NodePeerAnswered = "node.peer.answered",
    /// A worker has announced itself, and the node does not know.
    NodeWorkerAnnounced = "node.worker.announced",
    NodeWorkerLinked = "node.worker.linked",
    /// A worker's message is read, and its reports not handed on.
    NodeWorkerHeard = "node.worker.heard",
    NodeWorkerHandedOn = "node.worker.handed_on",
    NodeOutputBegun = "node.output.begun",
    NodeOutputKept = "node.output.kept",

    WorkerWelcomed = "worker.welcomed",
    WorkerAdmitted = "worker.admitted",
    WorkerBeatBegun = "worker.beat.begun",
    WorkerBeatDone = "worker.beat.done",
    /// Orders are read, and nothing begun.
    WorkerOrdered = "worker.ordered",
    /// An attempt is in the book, its program not started.
    WorkerSpawnBegun = "worker.spawn.begun",
    /// The program runs, and nobody was told.
    WorkerSpawnDone = "worker.spawn.done",
    /// The program has ended, its outcome is not kept.
    WorkerOutcomeBegun = "worker.outcome.begun",
    /// It is kept, and not sent.
    WorkerOutcomeKept = "worker.outcome.kept",
    WorkerOutcomeSent = "worker.outcome.sent",
    /// The node has it for good; the worker has not forgotten it.
    WorkerAcknowledged = "worker.acknowledged",
    WorkerForgotten = "worker.forgotten",
    WorkerOutputSent = "worker.output.sent",
    WorkerOutputKept = "worker.output.kept",
    WorkerLeaveBegun = "worker.leave.begun",
}
