/* Leases, fences and rollbacks: what several workers may do to one saga, with a lease that may end at any moment.

   A saga has STEPS steps, each with an effect in the world. A worker claims it, drives it forward, and back where it
   fails or a person cancels. Between any two of its moves a worker may stand still for as long as it likes: its lease
   ends (EXPIRIES times in all), another worker claims the saga, and then the first goes on, none the wiser. A worker
   may also die (DEATHS times in all); it comes back as a new one.

   As long as its lease has not ended a worker's heartbeat renews it, whatever the worker itself is busy with. Who wants
   to claim asks for the write lock, waits for it, and only then looks at the holder's row and at the clock.

   The journal is one atomic place. An append is made under an epoch, which rises with each claim, and only by someone
   who has seen the newest entry; else nothing is written. A call to the world is atomic too. What lies between an
   append and a call, and between a call and the append of its outcome, is not: there everything can happen.

   What holds, in every order of events:
     once      no effect ever stands twice
     ended     rolled back: nothing stands, unless an incident names it; completed: everything stands
     order     no compensation starts while a newer step is still owed
     heard     a saga that a person cancelled does not complete
     kept      nobody claims a saga from a worker whose lease has not ended

   Each mechanism can be switched off by a definition, and then one of these breaks:
     -DNO_FENCE       an append is not refused when the epoch has risen
     -DNO_SEEN        an append is not refused when somebody else's entry came first
     -DNO_INTENT      what is about to be called is not written down first
     -DNO_KEY         a provider does not know an attempt's key again
     -DNO_TURN        what landed after its compensation is taken back under the key that it was taken back with before
     -DNO_LATE        a worker that was replaced keeps to itself that its call has taken effect
     -DNO_UNCERTAIN   only what certainly happened is compensated
     -DNO_WAIT        a compensation starts before the one before it has succeeded
     -DNO_INSIDE      who claims reads the clock before it waits for the lock: a row that was renewed meanwhile is ahead
                      of that, as if it came from another boot of the machine, and its worker counts as gone

   Not promised: a worker that was replaced, calls the world all the same, and dies before it can tell anyone
   (-DZOMBIES_DIE). Where providers keep a tombstone for what was taken back (-DTOMBSTONE) that holds too.            */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef EXPIRIES
#define EXPIRIES 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#define TURNS (EXPIRIES + 1)
#define NOBODY 255

mtype:phase = { running, rolling_back, rolled_back, completed };
mtype:status = {
  none, started, succeeded, unknown, compensating, recompensating, uncompensated, compensated
};

/* -- the journal ------------------------------------------------------------------------------------------------- */

mtype:phase phase = running;
mtype:status step[STEPS] = none;
byte turn[STEPS];                 /* how often a step has landed after its compensation had begun */
bit late[STEPS];                  /* it has, and only a probe may say whether it stands */
bit named[STEPS];                 /* by an incident */
byte owner = NOBODY;
byte epoch;
bit lapsed;                       /* the owner's lease has ended: its row is older than it may be */
bit waits[WORKERS];               /* for the write lock, to claim */
#ifdef NO_INSIDE
bit ahead[WORKERS];               /* the row was renewed since: it is ahead of the time that this one has read */
#define is_ahead(w)  (ahead[w])
#define forget(w)    waits[w] = 0; ahead[w] = 0
#else
#define is_ahead(w)  false        /* nothing is written between its look at the clock and its look at the row */
#define forget(w)    waits[w] = 0
#endif

byte mine[WORKERS];               /* the epoch of each worker's last claim */
bit behind[WORKERS];              /* somebody else has written since it last looked */

/* -- the world --------------------------------------------------------------------------------------------------- */

byte stands[STEPS];
bit known[STEPS];                 /* the provider has seen this action's key */
bit undone[STEPS * TURNS];        /* ... and that of this turn's compensation */
bit buried[STEPS];                /* a tombstone */

bit cancelled;
byte expiries = EXPIRIES;
byte deaths = DEATHS;
bit under_way[WORKERS];           /* a call is due, is being made, or is not reported yet */
bit probed;                       /* whether this saga's actions have probes */

#define is_open      (phase == running || phase == rolling_back)
#define is_gone(w)   (owner == NOBODY || lapsed || is_ahead(w))
#define held(w)      (owner == w && mine[w] == epoch)
#ifdef NO_FENCE
#define may_write(w) true
#else
#define may_write(w) (mine[w] == epoch)
#endif
#ifdef NO_SEEN
#define is_behind(w) false
#else
#define is_behind(w) (behind[w])
#endif
#define in_flight(s) (step[s] == started || step[s] == compensating || step[s] == recompensating)
#ifdef NO_UNCERTAIN
#define owed(s)      (step[s] == succeeded || step[s] == uncompensated || in_flight(s))
#else
#define owed(s)      (step[s] == succeeded || step[s] == uncompensated || step[s] == unknown || in_flight(s))
#endif

inline others_are_behind(w) {
  o = 0;
  do :: o < WORKERS -> if :: o != w -> behind[o] = 1 :: else fi; o++ :: else -> break od;
  o = 0
}

/* A claim, and what it finds: whatever was in flight is lost. */
inline claim(w) {
  assert(owner == NOBODY || lapsed);                                                                       /* kept */
  epoch++; owner = w; mine[w] = epoch; behind[w] = 0; lapsed = 0;
  s = 0;
  do
  :: s < STEPS ->
     if
     :: step[s] == started -> step[s] = unknown
     :: step[s] == compensating || step[s] == recompensating -> step[s] = uncompensated
     :: else
     fi;
     s++
  :: else -> break
  od;
  s = 0;
  others_are_behind(w)
}

inline call_action(s) {
#ifdef TOMBSTONE
  if :: buried[s] :: else ->
#endif
#ifdef NO_KEY
  stands[s]++;
#else
  if :: !known[s] -> stands[s]++ :: else fi;
#endif
  known[s] = 1;
#ifdef TOMBSTONE
  fi;
#endif
  assert(stands[s] <= 1)                                                                                   /* once */
}

inline call_compensation(s, t) {
  if :: !undone[s * TURNS + t] && stands[s] > 0 -> stands[s]-- :: else fi;
  undone[s * TURNS + t] = 1;
  buried[s] = 1
}

/* Somebody who does not hold the saga writes down that an effect has landed. */
inline enrol_late(w, s) {
  if
  :: step[s] == compensating -> step[s] = recompensating; late[s] = 1; turn[s]++
  :: step[s] == uncompensated -> turn[s]++
  :: step[s] == compensated ->
     step[s] = unknown; late[s] = 1; turn[s]++;
     if :: phase == rolled_back -> phase = rolling_back :: else fi
  :: step[s] == unknown && !late[s] -> step[s] = succeeded
  :: else
  fi;
  others_are_behind(w)
}

proctype Worker(byte w) {
  byte s, o, n, t;
  mtype:phase seen;                                 /* the saga's phase, as of when it last looked */

idle:
  under_way[w] = 0;
end_idle:
  do
  :: atomic { is_open && !waits[w] && owner != w -> waits[w] = 1 }
  :: atomic {                                       /* it has the lock: what nobody holds, or whose lease has ended */
       waits[w] ->
       if
       :: is_open && owner != w && is_gone(w) ->
          claim(w);
          forget(w);
          seen = phase;
          goto drive
       :: else -> forget(w)
       fi
     }
  od;

drive:
  do
  :: atomic { !held(w) -> goto idle }               /* it noticed */
  :: atomic { behind[w] -> behind[w] = 0; seen = phase }
  :: atomic { deaths > 0 -> deaths--; if :: owner == w -> owner = NOBODY :: else fi; goto idle }
  :: atomic {                                       /* forward: the next step's intent, or a lost one's again */
       seen == running && may_write(w) && !is_behind(w) ->
       n = 0;
       do :: n < STEPS && step[n] == succeeded -> n++ :: else -> break od;
       if
       :: n == STEPS -> phase = completed; owner = NOBODY; others_are_behind(w); goto idle
       :: n < STEPS && (step[n] == none || step[n] == unknown) ->
#ifndef NO_INTENT
          step[n] = started;
          others_are_behind(w);
#endif
          under_way[w] = 1;
          goto act
       :: n < STEPS -> phase = rolling_back; seen = phase; others_are_behind(w)         /* its function gave up */
       fi
     }
  :: atomic {                                       /* back: the newest that is owed */
       seen == rolling_back && may_write(w) && !is_behind(w) ->
       n = STEPS;
       do :: n > 0 && (!owed(n - 1) || named[n - 1]) -> n-- :: else -> break od;
#ifdef NO_WAIT
       if :: n > 1 && owed(n - 2) && !named[n - 2] && step[n - 2] == succeeded -> n-- :: true fi;
#endif
       if
       :: n == 0 -> phase = rolled_back; owner = NOBODY; others_are_behind(w); goto idle
       :: n > 0 ->
          n--;
          if
          :: step[n] == unknown && late[n] ->       /* nobody knows what a second call would take back: ask, or call */
             if
             :: probed && stands[n] > 0 -> step[n] = succeeded; late[n] = 0
             :: probed && stands[n] == 0 -> step[n] = compensated; late[n] = 0
             :: !probed -> named[n] = 1
             fi;
             others_are_behind(w)
          :: else ->
             s = n + 1;
             do :: s < STEPS -> assert(!owed(s) || named[s]); s++ :: else -> break od;                  /* order */
             s = 0;
             step[n] = compensating;
#ifndef NO_TURN
             t = turn[n];
#endif
             others_are_behind(w);
             goto undo
          fi
       fi
     }
  od;

act:                                                /* here it may stand still for as long as it likes */
  if
  :: atomic { mine[w] == epoch && deaths > 0 -> deaths--; if :: owner == w -> owner = NOBODY :: else fi; goto idle }
  :: atomic { true -> call_action(n) }
  fi;
acted:
  if
  :: atomic { mine[w] == epoch && deaths > 0 -> deaths--; if :: owner == w -> owner = NOBODY :: else fi; goto idle }
#ifdef ZOMBIES_DIE
  :: atomic { mine[w] != epoch && deaths > 0 -> deaths--; goto idle }
#endif
  :: atomic { may_write(w) && is_behind(w) -> behind[w] = 0; seen = phase; goto acted }
  :: atomic {                                       /* the outcome, in its own name */
       may_write(w) && !is_behind(w) ->
       step[n] = succeeded;
       others_are_behind(w);
       under_way[w] = 0;
       goto drive
     }
  :: atomic {                                       /* it was replaced: the outcome, as news from elsewhere */
       !may_write(w) ->
#ifndef NO_LATE
       enrol_late(w, n);
#endif
       goto idle
     }
  fi;

undo:
  if
  :: atomic { deaths > 0 -> deaths--; if :: owner == w -> owner = NOBODY :: else fi; goto idle }
  :: atomic { true -> call_compensation(n, t) }
  fi;
undid:
  if
  :: atomic { deaths > 0 -> deaths--; if :: owner == w -> owner = NOBODY :: else fi; goto idle }
  :: atomic { may_write(w) && is_behind(w) -> behind[w] = 0; seen = phase; goto undid }
  :: atomic {
       may_write(w) && !is_behind(w) ->
       if
       :: step[n] == recompensating -> step[n] = unknown
       :: else -> step[n] = compensated
       fi;
       others_are_behind(w);
       goto drive
     }
  :: atomic { !may_write(w) -> goto idle }
  fi
}

/* Time, and the heartbeats: a lease ends, or is renewed, whatever its worker is about. */
proctype Time() {
#ifdef NO_INSIDE
  byte w;
#endif
end_time:
  do
  :: atomic { owner != NOBODY && !lapsed && expiries > 0 -> expiries--; lapsed = 1 }
#ifdef NO_INSIDE
  :: atomic {
       owner != NOBODY && !lapsed ->
       w = 0;
       do :: w < WORKERS -> if :: waits[w] -> ahead[w] = 1 :: else fi; w++ :: else -> break od;
       w = 0
     }
#endif
  :: atomic { owner != NOBODY && lapsed -> lapsed = 0 }                        /* it comes back before anybody came */
  od
}

/* A person who cancels, once, at any moment while it runs. */
proctype Person() {
  byte o;
end_person:
  atomic { phase == running -> phase = rolling_back; cancelled = 1; others_are_behind(NOBODY) }
}

#define quiet (under_way[0] == 0 && under_way[1] == 0 && under_way[WORKERS - 1] == 0)

/* Whenever the saga has ended, and nobody has a call under way: the ledger. */
proctype Ledger() {
  byte s;
end_ledger:
  do
  :: atomic {
       (phase == rolled_back || phase == completed) && quiet ->
       assert(!cancelled || phase == rolled_back);                                                        /* heard */
       s = 0;
       do
       :: s < STEPS ->
          assert(phase != rolled_back || stands[s] == 0 || named[s]);                                     /* ended */
          assert(phase != completed || stands[s] == 1);
          s++
       :: else -> break
       od;
       s = 0
     }
  od
}

init {
  byte w;
  if :: probed = 1 :: probed = 0 fi;
  atomic {
    w = 0;
    do :: w < WORKERS -> run Worker(w); w++ :: else -> break od;
    run Time();
    run Person();
    run Ledger()
  }
}
