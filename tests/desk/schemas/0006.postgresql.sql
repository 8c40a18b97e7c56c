SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
COMMENT ON SCHEMA public IS 'standard public schema';
CREATE FUNCTION public.desk_refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME; END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.answers (
    id bigint NOT NULL,
    reading_id bigint NOT NULL,
    case_id bigint NOT NULL,
    reader bigint NOT NULL,
    label text NOT NULL,
    submission text NOT NULL,
    standing text NOT NULL,
    seconds double precision,
    given bigint NOT NULL,
    supersedes bigint,
    reason text
);
CREATE SEQUENCE public.answers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.answers_id_seq OWNED BY public.answers.id;
CREATE TABLE public.bodies (
    id bigint NOT NULL,
    kind text NOT NULL,
    media_type text NOT NULL,
    sha256 text NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE public.cases (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    key text NOT NULL,
    digest text NOT NULL,
    state text NOT NULL,
    model text,
    group_name text,
    cluster text,
    predicted text,
    confidence double precision,
    probabilities text,
    accepted boolean NOT NULL,
    cause text NOT NULL,
    policy_id bigint,
    draw double precision NOT NULL,
    rate double precision NOT NULL,
    audit text,
    received bigint NOT NULL,
    due bigint NOT NULL,
    truth text,
    "least" double precision,
    twice double precision,
    weight double precision
);
CREATE SEQUENCE public.cases_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.cases_id_seq OWNED BY public.cases.id;
CREATE TABLE public.counters (
    project_id bigint NOT NULL,
    name text NOT NULL,
    slot integer NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE public.decisions (
    id bigint NOT NULL,
    case_id bigint NOT NULL,
    version integer NOT NULL,
    kind text NOT NULL,
    label text,
    policy_id bigint,
    reading_id bigint,
    made bigint NOT NULL,
    supersedes bigint
);
CREATE SEQUENCE public.decisions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.decisions_id_seq OWNED BY public.decisions.id;
CREATE TABLE public.events (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    actor bigint,
    case_id bigint,
    changes text NOT NULL
);
CREATE SEQUENCE public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.events_id_seq OWNED BY public.events.id;
CREATE TABLE public.memberships (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    project_id bigint NOT NULL,
    role text NOT NULL,
    created bigint NOT NULL,
    ended bigint
);
CREATE SEQUENCE public.memberships_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.memberships_id_seq OWNED BY public.memberships.id;
CREATE TABLE public.monitors (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    policy_id bigint NOT NULL,
    state text NOT NULL,
    evidence double precision NOT NULL,
    audited integer NOT NULL,
    errors integer NOT NULL,
    open integer NOT NULL,
    bound double precision,
    memory text NOT NULL,
    alarmed bigint,
    counted double precision,
    counted_errors double precision,
    doubtful double precision
);
CREATE SEQUENCE public.monitors_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.monitors_id_seq OWNED BY public.monitors.id;
CREATE TABLE public.outbox (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    webhook_id bigint NOT NULL,
    kind text NOT NULL,
    case_id bigint,
    payload text NOT NULL,
    state text NOT NULL,
    attempts integer NOT NULL,
    next_try bigint NOT NULL,
    error text,
    created bigint NOT NULL
);
CREATE SEQUENCE public.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.outbox_id_seq OWNED BY public.outbox.id;
CREATE TABLE public.policies (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    state text NOT NULL,
    document text NOT NULL,
    sha256 text NOT NULL,
    source text NOT NULL,
    created bigint NOT NULL,
    activated bigint,
    withdrawn bigint,
    reason text,
    share double precision,
    caught_up bigint
);
CREATE SEQUENCE public.policies_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.policies_id_seq OWNED BY public.policies.id;
CREATE TABLE public.projects (
    id bigint NOT NULL,
    name text NOT NULL,
    secret bytea NOT NULL,
    rules text NOT NULL,
    sampling_rate double precision NOT NULL,
    created bigint NOT NULL,
    combiner text
);
CREATE SEQUENCE public.projects_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.projects_id_seq OWNED BY public.projects.id;
CREATE TABLE public.readings (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    case_id bigint NOT NULL,
    root bigint NOT NULL,
    why text NOT NULL,
    state text NOT NULL,
    due bigint NOT NULL,
    barred bigint,
    reader bigint,
    lease text,
    leased bigint,
    until bigint,
    created bigint NOT NULL,
    finished bigint,
    answer_id bigint
);
CREATE SEQUENCE public.readings_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.readings_id_seq OWNED BY public.readings.id;
CREATE TABLE public.seals (
    id bigint NOT NULL,
    first_event bigint NOT NULL,
    last_event bigint NOT NULL,
    n_events integer NOT NULL,
    previous text NOT NULL,
    sha256 text NOT NULL,
    sealed bigint NOT NULL
);
CREATE SEQUENCE public.seals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.seals_id_seq OWNED BY public.seals.id;
CREATE TABLE public.sessions (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    digest text NOT NULL,
    kind text NOT NULL,
    created bigint NOT NULL,
    expires bigint NOT NULL,
    ended bigint
);
CREATE SEQUENCE public.sessions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.sessions_id_seq OWNED BY public.sessions.id;
CREATE TABLE public.shadows (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    case_id bigint NOT NULL,
    model text NOT NULL,
    classes text NOT NULL,
    predicted text,
    confidence double precision,
    probabilities text,
    blind boolean NOT NULL,
    received bigint NOT NULL
);
CREATE SEQUENCE public.shadows_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.shadows_id_seq OWNED BY public.shadows.id;
CREATE TABLE public.skips (
    id bigint NOT NULL,
    reading_id bigint NOT NULL,
    reader bigint NOT NULL,
    reason text NOT NULL,
    skipped bigint NOT NULL
);
CREATE SEQUENCE public.skips_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.skips_id_seq OWNED BY public.skips.id;
CREATE TABLE public.tokens (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    project_id bigint NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    digest text NOT NULL,
    created bigint NOT NULL,
    expires bigint,
    revoked bigint
);
CREATE SEQUENCE public.tokens_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.tokens_id_seq OWNED BY public.tokens.id;
CREATE TABLE public.users (
    id bigint NOT NULL,
    name text NOT NULL,
    password text,
    created bigint NOT NULL,
    disabled bigint,
    away bigint
);
CREATE SEQUENCE public.users_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.users_id_seq OWNED BY public.users.id;
CREATE TABLE public.webhooks (
    id bigint NOT NULL,
    project_id bigint NOT NULL,
    url text NOT NULL,
    secret bytea NOT NULL,
    created bigint NOT NULL,
    ended bigint
);
CREATE SEQUENCE public.webhooks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.webhooks_id_seq OWNED BY public.webhooks.id;
ALTER TABLE ONLY public.answers ALTER COLUMN id SET DEFAULT nextval('public.answers_id_seq'::regclass);
ALTER TABLE ONLY public.cases ALTER COLUMN id SET DEFAULT nextval('public.cases_id_seq'::regclass);
ALTER TABLE ONLY public.decisions ALTER COLUMN id SET DEFAULT nextval('public.decisions_id_seq'::regclass);
ALTER TABLE ONLY public.events ALTER COLUMN id SET DEFAULT nextval('public.events_id_seq'::regclass);
ALTER TABLE ONLY public.memberships ALTER COLUMN id SET DEFAULT nextval('public.memberships_id_seq'::regclass);
ALTER TABLE ONLY public.monitors ALTER COLUMN id SET DEFAULT nextval('public.monitors_id_seq'::regclass);
ALTER TABLE ONLY public.outbox ALTER COLUMN id SET DEFAULT nextval('public.outbox_id_seq'::regclass);
ALTER TABLE ONLY public.policies ALTER COLUMN id SET DEFAULT nextval('public.policies_id_seq'::regclass);
ALTER TABLE ONLY public.projects ALTER COLUMN id SET DEFAULT nextval('public.projects_id_seq'::regclass);
ALTER TABLE ONLY public.readings ALTER COLUMN id SET DEFAULT nextval('public.readings_id_seq'::regclass);
ALTER TABLE ONLY public.seals ALTER COLUMN id SET DEFAULT nextval('public.seals_id_seq'::regclass);
ALTER TABLE ONLY public.sessions ALTER COLUMN id SET DEFAULT nextval('public.sessions_id_seq'::regclass);
ALTER TABLE ONLY public.shadows ALTER COLUMN id SET DEFAULT nextval('public.shadows_id_seq'::regclass);
ALTER TABLE ONLY public.skips ALTER COLUMN id SET DEFAULT nextval('public.skips_id_seq'::regclass);
ALTER TABLE ONLY public.tokens ALTER COLUMN id SET DEFAULT nextval('public.tokens_id_seq'::regclass);
ALTER TABLE ONLY public.users ALTER COLUMN id SET DEFAULT nextval('public.users_id_seq'::regclass);
ALTER TABLE ONLY public.webhooks ALTER COLUMN id SET DEFAULT nextval('public.webhooks_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0006');
INSERT INTO public.answers VALUES (1, 1, 1, 1, 'cat', '1-0725655186c7a094-274a54d61183b34afcf328e23e6a899d', 'counted', 0, 1700000000000000, NULL, NULL);
INSERT INTO public.bodies VALUES (1, 'text', 'text/plain; charset=utf-8', '3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8', '\x6c6f6f6b');
INSERT INTO public.bodies VALUES (2, 'json', 'application/json', '937f1a6767d9081f59ffdda2873ff8eee571a335bc90c73803c4ee809d9cb698', '\x7b2261223a205b312c206e756c6c5d7d');
INSERT INTO public.bodies VALUES (3, 'text', 'text/plain; charset=utf-8', '3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8', '\x6c6f6f6b');
INSERT INTO public.bodies VALUES (4, 'json', 'application/json', '937f1a6767d9081f59ffdda2873ff8eee571a335bc90c73803c4ee809d9cb698', '\x7b2261223a205b312c206e756c6c5d7d');
INSERT INTO public.cases VALUES (2, 1, 'case-1', '1d75728a31fc12608651a9d071af45e2fcf56a89d0dee47fdaf5ca2b7603565b', 'auto', NULL, NULL, NULL, 'cat', 0.99, '{"cat":0.99,"dog":0.010000000000000009}', true, 'above_threshold', 1, 0.11977873357702162, 0.5, 'open', 1700000000000000, 1700086400000000, NULL, 0.5, 1, NULL);
INSERT INTO public.cases VALUES (3, 1, 'case-2', '445a74d96e3665e03305920a161da8a10a3f0cd948f2aa97c649253692f52477', 'waiting', NULL, NULL, NULL, 'cat', 0.6, '{"cat":0.6,"dog":0.4}', false, 'below_threshold', 1, 0.2861034305051846, 0.5, NULL, 1700000000000000, 1700086400000000, NULL, NULL, NULL, NULL);
INSERT INTO public.cases VALUES (4, 1, 'case-3', '9d557dc3e51a32d40529f27a1ee4dc027c5fe2354faffa3679993d278af52f3b', 'auto', NULL, NULL, NULL, 'cat', 0.99, '{"cat":0.99,"dog":0.010000000000000009}', true, 'above_threshold', 1, 0.2980617787651667, 0.5, 'open', 1700000000000000, 1700086400000000, NULL, 0.5, 1, NULL);
INSERT INTO public.cases VALUES (1, 1, 'case-0', '8e71c0517f334071e26048c381e48ccd9a5d10b460dbe08bc6c178d51ff0a9fb', 'closed', NULL, NULL, NULL, 'cat', 0.6, '{"cat":0.6,"dog":0.4}', false, 'below_threshold', 1, 0.5487849912207078, 0.5, NULL, 1700000000000000, 1700086400000000, NULL, NULL, NULL, NULL);
INSERT INTO public.counters VALUES (1, 'policies.draft', 4, 1);
INSERT INTO public.counters VALUES (1, 'monitors.not refuted', 8, 1);
INSERT INTO public.counters VALUES (1, 'policies.active', 8, 1);
INSERT INTO public.counters VALUES (1, 'policies.draft', 8, -1);
INSERT INTO public.counters VALUES (1, 'cases.auto', 10, 2);
INSERT INTO public.counters VALUES (1, 'cases.waiting', 10, 2);
INSERT INTO public.counters VALUES (1, 'decided', 10, 2);
INSERT INTO public.counters VALUES (1, 'decided by policy 1', 10, 2);
INSERT INTO public.counters VALUES (1, 'decided@472222', 10, 2);
INSERT INTO public.counters VALUES (1, 'readings.waiting', 10, 4);
INSERT INTO public.counters VALUES (1, 'readings@472222', 10, 4);
INSERT INTO public.counters VALUES (1, 'received', 10, 4);
INSERT INTO public.counters VALUES (1, 'received by policy 1', 10, 4);
INSERT INTO public.counters VALUES (1, 'received@472222', 10, 4);
INSERT INTO public.counters VALUES (1, 'readings.leased', 4, 1);
INSERT INTO public.counters VALUES (1, 'readings.waiting', 4, -1);
INSERT INTO public.counters VALUES (1, 'answers.counted', 0, 1);
INSERT INTO public.counters VALUES (1, 'answers@472222', 0, 1);
INSERT INTO public.counters VALUES (1, 'cases.closed', 0, 1);
INSERT INTO public.counters VALUES (1, 'cases.waiting', 0, -1);
INSERT INTO public.counters VALUES (1, 'readings.done', 0, 1);
INSERT INTO public.counters VALUES (1, 'readings.leased', 0, -1);
INSERT INTO public.counters VALUES (1, 'readings.leased', 2, 1);
INSERT INTO public.counters VALUES (1, 'readings.waiting', 2, -1);
INSERT INTO public.decisions VALUES (1, 2, 1, 'auto', 'cat', 1, NULL, 1700000000000000, NULL);
INSERT INTO public.decisions VALUES (2, 4, 1, 'auto', 'cat', 1, NULL, 1700000000000000, NULL);
INSERT INTO public.decisions VALUES (3, 1, 1, 'expert', 'cat', NULL, 1, 1700000000000000, NULL);
INSERT INTO public.events VALUES (1, 1, 1700000000000000, 'project.made', NULL, NULL, '[["projects",1,{"name":"main","rules":"{\"classes\":[],\"quality_rate\":0.5,\"raised_rate\":0.2,\"second_share\":0.1,\"audit_second_share\":1.0,\"doubtful_ratio\":3.0,\"certify_share\":0.5,\"alarm_level\":0.05,\"strict\":false,\"webhook_hosts\":[],\"lease_seconds\":900,\"undo_seconds\":10,\"skip_rest_seconds\":1800,\"due_seconds\":86400}","sampling_rate":0.5,"created":1700000000000000}]]');
INSERT INTO public.events VALUES (2, 1, 1700000000000000, 'policy.added', NULL, NULL, '[["policies",1,{"project_id":1,"created":1700000000000000,"state":"draft","source":"uploaded","sha256":"7966a1c7fbe1dffb600e2e7e5e1ee764ff8ba3d730f87ae9596449c6dd6b1adc"}]]');
INSERT INTO public.events VALUES (3, 1, 1700000000000000, 'policy.activated', NULL, NULL, '[["policies",1,{"state":"active","activated":1700000000000000,"share":null,"caught_up":0}],["monitors",1,{"project_id":1,"policy_id":1,"state":"not refuted","evidence":0.0,"audited":0,"errors":0,"open":0,"bound":0.0,"memory":"{}"}],["projects",1,{"sampling_rate":0.5}]]');
INSERT INTO public.events VALUES (4, 1, 1700000000000000, 'case.received', NULL, 1, '[["cases",1,{"project_id":1,"key":"case-0","digest":"8e71c0517f334071e26048c381e48ccd9a5d10b460dbe08bc6c178d51ff0a9fb","state":"waiting","cause":"below_threshold","draw":0.5487849912207078,"received":1700000000000000,"due":1700086400000000,"predicted":"cat","confidence":0.6,"accepted":false,"policy_id":1,"rate":0.5,"probabilities_sha256":"a370206134deb6d5876de6dee0362b2849645aef7f03aa8f248e520c42d798ad"}],["bodies",1,{"kind":"text","media_type":"text/plain; charset=utf-8","sha256":"3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8"}],["readings",1,{"project_id":1,"created":1700000000000000,"case_id":1,"due":1700086400000000,"why":"delegated","root":1,"state":"waiting"}]]');
INSERT INTO public.events VALUES (5, 1, 1700000000000000, 'case.received', NULL, 2, '[["cases",2,{"project_id":1,"key":"case-1","digest":"1d75728a31fc12608651a9d071af45e2fcf56a89d0dee47fdaf5ca2b7603565b","state":"auto","cause":"above_threshold","draw":0.11977873357702162,"received":1700000000000000,"due":1700086400000000,"predicted":"cat","confidence":0.99,"accepted":true,"policy_id":1,"rate":0.5,"audit":"open","least":0.5,"twice":1.0,"probabilities_sha256":"83092ecb1f7dd1aa5c8c7e8438a1e08824b2a7692028734a7cb91ad0b643add9"}],["bodies",2,{"kind":"json","media_type":"application/json","sha256":"937f1a6767d9081f59ffdda2873ff8eee571a335bc90c73803c4ee809d9cb698"}],["decisions",1,{"case_id":2,"version":1,"kind":"auto","label":"cat","policy_id":1,"made":1700000000000000}],["readings",2,{"project_id":1,"created":1700000000000000,"case_id":2,"due":1700086400000000,"why":"quality","root":2,"state":"waiting"}]]');
INSERT INTO public.events VALUES (6, 1, 1700000000000000, 'case.received', NULL, 3, '[["cases",3,{"project_id":1,"key":"case-2","digest":"445a74d96e3665e03305920a161da8a10a3f0cd948f2aa97c649253692f52477","state":"waiting","cause":"below_threshold","draw":0.2861034305051846,"received":1700000000000000,"due":1700086400000000,"predicted":"cat","confidence":0.6,"accepted":false,"policy_id":1,"rate":0.5,"probabilities_sha256":"a370206134deb6d5876de6dee0362b2849645aef7f03aa8f248e520c42d798ad"}],["bodies",3,{"kind":"text","media_type":"text/plain; charset=utf-8","sha256":"3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8"}],["readings",3,{"project_id":1,"created":1700000000000000,"case_id":3,"due":1700086400000000,"why":"delegated","root":3,"state":"waiting"}]]');
INSERT INTO public.events VALUES (7, 1, 1700000000000000, 'case.received', NULL, 4, '[["cases",4,{"project_id":1,"key":"case-3","digest":"9d557dc3e51a32d40529f27a1ee4dc027c5fe2354faffa3679993d278af52f3b","state":"auto","cause":"above_threshold","draw":0.2980617787651667,"received":1700000000000000,"due":1700086400000000,"predicted":"cat","confidence":0.99,"accepted":true,"policy_id":1,"rate":0.5,"audit":"open","least":0.5,"twice":1.0,"probabilities_sha256":"83092ecb1f7dd1aa5c8c7e8438a1e08824b2a7692028734a7cb91ad0b643add9"}],["bodies",4,{"kind":"json","media_type":"application/json","sha256":"937f1a6767d9081f59ffdda2873ff8eee571a335bc90c73803c4ee809d9cb698"}],["decisions",2,{"case_id":4,"version":1,"kind":"auto","label":"cat","policy_id":1,"made":1700000000000000}],["readings",4,{"project_id":1,"created":1700000000000000,"case_id":4,"due":1700086400000000,"why":"quality","root":4,"state":"waiting"}]]');
INSERT INTO public.events VALUES (8, 1, 1700000000000000, 'token.added', NULL, NULL, '[["users",1,{"created":1700000000000000,"name":"ann"}],["tokens",1,{"project_id":1,"created":1700000000000000,"user_id":1,"name":"ann","role":"reader"}]]');
INSERT INTO public.events VALUES (9, 1, 1700000000000000, 'reading.leased', NULL, 1, '[["readings",1,{"state":"leased","reader":1,"leased":1700000000000000,"until":1700000900000000}]]');
INSERT INTO public.events VALUES (10, 1, 1700000000000000, 'answer.given', NULL, 1, '[["answers",1,{"reading_id":1,"case_id":1,"reader":1,"label":"cat","given":1700000000000000,"submission":"1-0725655186c7a094-274a54d61183b34afcf328e23e6a899d","standing":"counted","seconds":0.0}],["readings",1,{"state":"done","answer_id":1,"finished":1700000000000000,"until":null}]]');
INSERT INTO public.events VALUES (11, 1, 1700000000000000, 'decision.made', NULL, 1, '[["decisions",3,{"case_id":1,"version":1,"kind":"expert","label":"cat","made":1700000000000000,"reading_id":1}]]');
INSERT INTO public.events VALUES (12, 1, 1700000000000000, 'case.closed', NULL, 1, '[["cases",1,{"state":"closed"}]]');
INSERT INTO public.events VALUES (13, 1, 1700000000000000, 'token.added', NULL, NULL, '[["users",2,{"created":1700000000000000,"name":"bob"}],["tokens",2,{"project_id":1,"created":1700000000000000,"user_id":2,"name":"bob","role":"reader"}]]');
INSERT INTO public.events VALUES (14, 1, 1700000000000000, 'reading.leased', NULL, 2, '[["readings",2,{"state":"leased","reader":2,"leased":1700000000000000,"until":1700000900000000}]]');
INSERT INTO public.monitors VALUES (1, 1, 1, 'not refuted', 0, 0, 0, 0, 0, '{}', NULL, NULL, NULL, NULL);
INSERT INTO public.policies VALUES (1, 1, 'active', '{
  "kind": "expertload operating point",
  "schema_version": 6,
  "origin": {
    "ranked_by": "top_probability",
    "score": null,
    "labels": [
      "cat",
      "dog"
    ],
    "probability_columns": null,
    "read_as": null,
    "confidence_column": null,
    "group_column": null,
    "confidence_quantiles": [0.5000950008036718, 0.5036166101990347, 0.5072708156805097, 0.5120066003356747, 0.5164560588596683, 0.5215334442841021, 0.527731164157861, 0.5351260295828333, 0.5388975773820421, 0.5424813079364508, 0.5469225767166531, 0.5535222600223694, 0.5576394765392572, 0.5624581127480462, 0.5677827202261522, 0.5733441159547834, 0.577405778330231, 0.5835264643911361, 0.5879528916021917, 0.5921011655540092, 0.5970137274503966, 0.6004820149949744, 0.6085335905360632, 0.6131665238971421, 0.6189645000794555, 0.6232418245437551, 0.6296284532647645, 0.634432086011095, 0.6392137815186159, 0.6455981988229365, 0.6483574045367367, 0.6561000754507866, 0.6609346955379711, 0.6639911448823013, 0.6681190509764934, 0.6736128845357938, 0.6781822731882857, 0.6838299803927471, 0.6884517559000132, 0.6920008932038437, 0.6965755135311602, 0.7022759199107641, 0.7076920186856124, 0.7123088474673167, 0.7167944716166748, 0.7218143008344509, 0.7285521684644096, 0.7337492661854823, 0.7380735359843765, 0.7432602166515774, 0.7485824825363268, 0.7550445037423519, 0.7611229664551492, 0.7657312665585546, 0.7726267272346203, 0.7770452510866339, 0.7816019979100978, 0.7852156613057333, 0.788435273512637, 0.7930615324063663, 0.7970950372622836, 0.8024299673883746, 0.8076925557406269, 0.8142293989394542, 0.8221002590016375, 0.8275605319956901, 0.8315657935884815, 0.8363802753078692, 0.8406872309170176, 0.8452115618039149, 0.8514798426228833, 0.8559441487625381, 0.8603809145239849, 0.8658605476304737, 0.8726969952734426, 0.8782335551798056, 0.88215988565883, 0.8864893528305531, 0.8913259695077381, 0.8972164185611133, 0.9023012303271336, 0.9079267770607661, 0.9117165022157022, 0.9163589246901154, 0.9206586398061916, 0.92414560413753, 0.9292176627770936, 0.9320397472403474, 0.938764452935898, 0.944932631818352, 0.9497156912701665, 0.9551278831080274, 0.9583573707066702, 0.9647085003114284, 0.9699043190715538, 0.9748532411814809, 0.9809674206730459, 0.9853390291636013, 0.990417669388115, 0.9950268076775537, 0.9997506761285134],
    "data_sha256": "97e2e4e65ea631a270ba65876c54b2d7117d05bd8be316dc7fc9487598ff0cf2",
    "model_name": null,
    "created": "2026-11-19T06:34:52+00:00",
    "library_version": "0.1.0"
  },
  "content": {
    "type": "certified",
    "threshold": 0.7810469973726809,
    "n_accepted": 886.0,
    "n_delegated": 1114.0,
    "n_errors": 32.0,
    "n_errors_spared": 457.0,
    "target_accuracy": 0.95,
    "confidence_level": 0.95,
    "method": "spending",
    "risk": "selective",
    "reason": null,
    "clusters": null,
    "sufficient_cases": null,
    "target_within_reach": null,
    "passed": {
      "is_continuous": true,
      "stretches": [
        {
          "threshold": [0.9796940227509063, 0.9781479382443836, 0.9744718374688827, 0.9725123241523133, 0.9704884812506873, 0.968283041737147, 0.966239746529393, 0.9646922527291552, 0.9632469661506426, 0.9604613370653745, 0.9573275761627658, 0.9563777886388609, 0.9549794808311485, 0.9534186786946495, 0.9505540467114183, 0.9478057988495017, 0.9461586453197661, 0.9448455786481977, 0.9430004458445103, 0.9400490606520349, 0.9370939237311953, 0.9349119407403343, 0.9318931205485425, 0.9306141414211091, 0.9299154192750377, 0.9281537241680282, 0.9259379561171285, 0.9239847150615792, 0.9220554841195212, 0.9209579299052024, 0.9201407799247989, 0.9174941019792002, 0.9163220738266988, 0.9138814599155727, 0.9118906791963859, 0.91106857953222, 0.9090604854854551, 0.9077552033295058, 0.9064148081261263, 0.903915663827686, 0.9009302340997847, 0.8995981898580574, 0.8957526866310785, 0.8946237741263381, 0.8919073521081473, 0.8905316799725748, 0.8879691744668003, 0.8863246006126944, 0.8842801980530872, 0.8829585588694362, 0.8810985859296099, 0.8789755011782141, 0.8779693207785897, 0.8762043643134854, 0.8741121375406224, 0.871724280720833, 0.8672684201622126, 0.8658156176023313, 0.8630617554669902, 0.861109994663497, 0.859110632546584, 0.8574430576928389, 0.8558102894404587, 0.854209378456933, 0.8528937077661485, 0.8504540464333151, 0.8475459347775314, 0.8446508684650921, 0.8434432134948084, 0.8416330062362929, 0.8403431627851062, 0.8383022316222898, 0.8362633169584346, 0.835030924657468, 0.8320709283742528, 0.830248050420767, 0.8287513025748768, 0.8270705542711907, 0.8252296381339081, 0.8230225117831774, 0.8193591095809114, 0.8165717822671, 0.8138402874386312, 0.8124704808339918, 0.8084004603158065, 0.8065623389771072, 0.803853242643086, 0.8019348288703764, 0.8008320521161281, 0.7973069253303366, 0.7960117128842621, 0.7942671259696763, 0.7927397928803109, 0.7907904060557419, 0.7886592926224134, 0.7876046634410065, 0.7861589539771241, 0.7847230101635485, 0.7836861628492815, 0.782206410560297, 0.7810469973726809],
          "n_accepted": [86.0, 94.0, 102.0, 110.0, 118.0, 126.0, 134.0, 142.0, 150.0, 158.0, 166.0, 174.0, 182.0, 190.0, 198.0, 206.0, 214.0, 222.0, 230.0, 238.0, 246.0, 254.0, 262.0, 270.0, 278.0, 286.0, 294.0, 302.0, 310.0, 318.0, 326.0, 334.0, 342.0, 350.0, 358.0, 366.0, 374.0, 382.0, 390.0, 398.0, 406.0, 414.0, 422.0, 430.0, 438.0, 446.0, 454.0, 462.0, 470.0, 478.0, 486.0, 494.0, 502.0, 510.0, 518.0, 526.0, 534.0, 542.0, 550.0, 558.0, 566.0, 574.0, 582.0, 590.0, 598.0, 606.0, 614.0, 622.0, 630.0, 638.0, 646.0, 654.0, 662.0, 670.0, 678.0, 686.0, 694.0, 702.0, 710.0, 718.0, 726.0, 734.0, 742.0, 750.0, 758.0, 766.0, 774.0, 782.0, 790.0, 798.0, 806.0, 814.0, 822.0, 830.0, 838.0, 846.0, 854.0, 862.0, 870.0, 878.0, 886.0],
          "n_errors": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 6.0, 10.0, 13.0, 15.0, 17.0, 21.0, 22.0, 26.0, 28.0, 30.0, 32.0]
        }
      ]
    }
  },
  "sha256": "d0f88af0be4af9829a5a5c0bca8539e7fea106283835b14affc49d2f78800fae"
}
', '7966a1c7fbe1dffb600e2e7e5e1ee764ff8ba3d730f87ae9596449c6dd6b1adc', 'uploaded', 1700000000000000, 1700000000000000, NULL, NULL, NULL, 0);
INSERT INTO public.projects VALUES (1, 'main', '\x66726f7a656e', '{"classes":[],"quality_rate":0.5,"raised_rate":0.2,"second_share":0.1,"audit_second_share":1.0,"doubtful_ratio":3.0,"certify_share":0.5,"alarm_level":0.05,"strict":false,"webhook_hosts":[],"lease_seconds":900,"undo_seconds":10,"skip_rest_seconds":1800,"due_seconds":86400}', 0.5, 1700000000000000, NULL);
INSERT INTO public.readings VALUES (3, 1, 3, 3, 'delegated', 'waiting', 1700086400000000, NULL, NULL, NULL, NULL, NULL, 1700000000000000, NULL, NULL);
INSERT INTO public.readings VALUES (4, 1, 4, 4, 'quality', 'waiting', 1700086400000000, NULL, NULL, NULL, NULL, NULL, 1700000000000000, NULL, NULL);
INSERT INTO public.readings VALUES (1, 1, 1, 1, 'delegated', 'done', 1700086400000000, NULL, 1, NULL, 1700000000000000, NULL, 1700000000000000, 1700000000000000, 1);
INSERT INTO public.readings VALUES (2, 1, 2, 2, 'quality', 'leased', 1700086400000000, NULL, 2, '2-e66ca472a03b9cec-01fc2af4e5aed3103bf9e81ab3830806', 1700000000000000, 1700000900000000, 1700000000000000, NULL, NULL);
INSERT INTO public.seals VALUES (1, 1, 14, 14, '0000000000000000000000000000000000000000000000000000000000000000', '72476fde223863ad0191da5013594eb24371de1f4f6eccc599840d6ccc35c121', 1700000000000000);
INSERT INTO public.tokens VALUES (1, 1, 1, 'ann', 'reader', 'a2430cf88fabcc4f883c74d2d67badb4a9c745dec39e8e782910b08a66a3ba5c', 1700000000000000, NULL, NULL);
INSERT INTO public.tokens VALUES (2, 2, 1, 'bob', 'reader', 'bc5a54f6aae955909982440d75f2f7d2d88786ea83458acb1154d86d317dfe59', 1700000000000000, NULL, NULL);
INSERT INTO public.users VALUES (1, 'ann', NULL, 1700000000000000, NULL, NULL);
INSERT INTO public.users VALUES (2, 'bob', NULL, 1700000000000000, NULL, NULL);
SELECT pg_catalog.setval('public.answers_id_seq', 1, true);
SELECT pg_catalog.setval('public.cases_id_seq', 4, true);
SELECT pg_catalog.setval('public.decisions_id_seq', 3, true);
SELECT pg_catalog.setval('public.events_id_seq', 14, true);
SELECT pg_catalog.setval('public.memberships_id_seq', 1, false);
SELECT pg_catalog.setval('public.monitors_id_seq', 1, true);
SELECT pg_catalog.setval('public.outbox_id_seq', 1, false);
SELECT pg_catalog.setval('public.policies_id_seq', 1, true);
SELECT pg_catalog.setval('public.projects_id_seq', 1, true);
SELECT pg_catalog.setval('public.readings_id_seq', 4, true);
SELECT pg_catalog.setval('public.seals_id_seq', 1, false);
SELECT pg_catalog.setval('public.sessions_id_seq', 1, false);
SELECT pg_catalog.setval('public.shadows_id_seq', 1, false);
SELECT pg_catalog.setval('public.skips_id_seq', 1, false);
SELECT pg_catalog.setval('public.tokens_id_seq', 2, true);
SELECT pg_catalog.setval('public.users_id_seq', 2, true);
SELECT pg_catalog.setval('public.webhooks_id_seq', 1, false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT pk_answers PRIMARY KEY (id);
ALTER TABLE ONLY public.bodies
    ADD CONSTRAINT pk_bodies PRIMARY KEY (id);
ALTER TABLE ONLY public.cases
    ADD CONSTRAINT pk_cases PRIMARY KEY (id);
ALTER TABLE ONLY public.counters
    ADD CONSTRAINT pk_counters PRIMARY KEY (project_id, name, slot);
ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT pk_decisions PRIMARY KEY (id);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT pk_events PRIMARY KEY (id);
ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT pk_memberships PRIMARY KEY (id);
ALTER TABLE ONLY public.monitors
    ADD CONSTRAINT pk_monitors PRIMARY KEY (id);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT pk_outbox PRIMARY KEY (id);
ALTER TABLE ONLY public.policies
    ADD CONSTRAINT pk_policies PRIMARY KEY (id);
ALTER TABLE ONLY public.projects
    ADD CONSTRAINT pk_projects PRIMARY KEY (id);
ALTER TABLE ONLY public.readings
    ADD CONSTRAINT pk_readings PRIMARY KEY (id);
ALTER TABLE ONLY public.seals
    ADD CONSTRAINT pk_seals PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT pk_sessions PRIMARY KEY (id);
ALTER TABLE ONLY public.shadows
    ADD CONSTRAINT pk_shadows PRIMARY KEY (id);
ALTER TABLE ONLY public.skips
    ADD CONSTRAINT pk_skips PRIMARY KEY (id);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT pk_tokens PRIMARY KEY (id);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT pk_users PRIMARY KEY (id);
ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT pk_webhooks PRIMARY KEY (id);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT uq_answers_reader_submission UNIQUE (reader, submission);
ALTER TABLE ONLY public.cases
    ADD CONSTRAINT uq_cases_project_id_key UNIQUE (project_id, key);
ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT uq_decisions_case_id_version UNIQUE (case_id, version);
ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT uq_decisions_supersedes UNIQUE (supersedes);
ALTER TABLE ONLY public.monitors
    ADD CONSTRAINT uq_monitors_policy_id UNIQUE (policy_id);
ALTER TABLE ONLY public.projects
    ADD CONSTRAINT uq_projects_name UNIQUE (name);
ALTER TABLE ONLY public.readings
    ADD CONSTRAINT uq_readings_lease UNIQUE (lease);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT uq_sessions_digest UNIQUE (digest);
ALTER TABLE ONLY public.shadows
    ADD CONSTRAINT uq_shadows_case_id_model UNIQUE (case_id, model);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT uq_tokens_digest UNIQUE (digest);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT uq_users_name UNIQUE (name);
CREATE INDEX ix_answers_case_id ON public.answers USING btree (case_id);
CREATE INDEX ix_answers_given ON public.answers USING btree (given);
CREATE INDEX ix_answers_reader_given ON public.answers USING btree (reader, given);
CREATE INDEX ix_answers_reading_id ON public.answers USING btree (reading_id);
CREATE INDEX ix_cases_audited ON public.cases USING btree (policy_id, id, audit) WHERE (audit IS NOT NULL);
CREATE INDEX ix_cases_golden ON public.cases USING btree (project_id, id) WHERE (truth IS NOT NULL);
CREATE INDEX ix_cases_policy_received ON public.cases USING btree (policy_id, received);
CREATE INDEX ix_cases_received ON public.cases USING btree (project_id, received);
CREATE INDEX ix_decisions_policy_made ON public.decisions USING btree (policy_id, made);
CREATE INDEX ix_events_case ON public.events USING btree (case_id);
CREATE INDEX ix_events_of_no_case ON public.events USING btree (project_id, kind, id) WHERE (case_id IS NULL);
CREATE INDEX ix_outbox_case ON public.outbox USING btree (case_id);
CREATE INDEX ix_outbox_waiting ON public.outbox USING btree (next_try) WHERE (state = 'waiting'::text);
CREATE INDEX ix_readings_case ON public.readings USING btree (case_id, reader);
CREATE INDEX ix_readings_leased ON public.readings USING btree (project_id, until) WHERE (state = 'leased'::text);
CREATE INDEX ix_readings_second ON public.readings USING btree (project_id, id) WHERE (why = 'second'::text);
CREATE INDEX ix_readings_waiting ON public.readings USING btree (project_id, due, id, why, barred) WHERE (state = 'waiting'::text);
CREATE INDEX ix_readings_waiting_since ON public.readings USING btree (project_id, created) WHERE (state = 'waiting'::text);
CREATE INDEX ix_sessions_user_id ON public.sessions USING btree (user_id);
CREATE INDEX ix_shadows_model ON public.shadows USING btree (project_id, model, id);
CREATE INDEX ix_skips_reading_reader ON public.skips USING btree (reading_id, reader, skipped);
CREATE UNIQUE INDEX uq_answers_supersedes ON public.answers USING btree (supersedes) WHERE (supersedes IS NOT NULL);
CREATE UNIQUE INDEX uq_memberships_current ON public.memberships USING btree (user_id, project_id, role) WHERE (ended IS NULL);
CREATE UNIQUE INDEX uq_policies_active ON public.policies USING btree (project_id) WHERE (state = 'active'::text);
CREATE UNIQUE INDEX uq_policies_trial ON public.policies USING btree (project_id) WHERE (state = 'trial'::text);
CREATE UNIQUE INDEX uq_readings_lease_a_reader ON public.readings USING btree (reader) WHERE (state = 'leased'::text);
CREATE TRIGGER answers_refuse_delete BEFORE DELETE ON public.answers FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER answers_refuse_truncate BEFORE TRUNCATE ON public.answers FOR EACH STATEMENT EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER answers_refuse_update BEFORE UPDATE ON public.answers FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER decisions_refuse_delete BEFORE DELETE ON public.decisions FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER decisions_refuse_truncate BEFORE TRUNCATE ON public.decisions FOR EACH STATEMENT EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER decisions_refuse_update BEFORE UPDATE ON public.decisions FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER events_refuse_delete BEFORE DELETE ON public.events FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER events_refuse_truncate BEFORE TRUNCATE ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER events_refuse_update BEFORE UPDATE ON public.events FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER seals_refuse_delete BEFORE DELETE ON public.seals FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER seals_refuse_truncate BEFORE TRUNCATE ON public.seals FOR EACH STATEMENT EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER seals_refuse_update BEFORE UPDATE ON public.seals FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER skips_refuse_delete BEFORE DELETE ON public.skips FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER skips_refuse_truncate BEFORE TRUNCATE ON public.skips FOR EACH STATEMENT EXECUTE FUNCTION public.desk_refuse_change();
CREATE TRIGGER skips_refuse_update BEFORE UPDATE ON public.skips FOR EACH ROW EXECUTE FUNCTION public.desk_refuse_change();
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT fk_answers_case_id FOREIGN KEY (case_id) REFERENCES public.cases(id);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT fk_answers_reader FOREIGN KEY (reader) REFERENCES public.users(id);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT fk_answers_reading_id FOREIGN KEY (reading_id) REFERENCES public.readings(id);
ALTER TABLE ONLY public.bodies
    ADD CONSTRAINT fk_bodies_id FOREIGN KEY (id) REFERENCES public.cases(id);
ALTER TABLE ONLY public.cases
    ADD CONSTRAINT fk_cases_policy_id FOREIGN KEY (policy_id) REFERENCES public.policies(id);
ALTER TABLE ONLY public.cases
    ADD CONSTRAINT fk_cases_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.counters
    ADD CONSTRAINT fk_counters_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT fk_decisions_case_id FOREIGN KEY (case_id) REFERENCES public.cases(id);
ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT fk_decisions_policy_id FOREIGN KEY (policy_id) REFERENCES public.policies(id);
ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT fk_decisions_supersedes FOREIGN KEY (supersedes) REFERENCES public.decisions(id);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT fk_events_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT fk_memberships_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT fk_memberships_user_id FOREIGN KEY (user_id) REFERENCES public.users(id);
ALTER TABLE ONLY public.monitors
    ADD CONSTRAINT fk_monitors_policy_id FOREIGN KEY (policy_id) REFERENCES public.policies(id);
ALTER TABLE ONLY public.monitors
    ADD CONSTRAINT fk_monitors_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT fk_outbox_case_id FOREIGN KEY (case_id) REFERENCES public.cases(id);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT fk_outbox_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT fk_outbox_webhook_id FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id);
ALTER TABLE ONLY public.policies
    ADD CONSTRAINT fk_policies_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.readings
    ADD CONSTRAINT fk_readings_barred FOREIGN KEY (barred) REFERENCES public.users(id);
ALTER TABLE ONLY public.readings
    ADD CONSTRAINT fk_readings_case_id FOREIGN KEY (case_id) REFERENCES public.cases(id);
ALTER TABLE ONLY public.readings
    ADD CONSTRAINT fk_readings_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.readings
    ADD CONSTRAINT fk_readings_reader FOREIGN KEY (reader) REFERENCES public.users(id);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT fk_sessions_user_id FOREIGN KEY (user_id) REFERENCES public.users(id);
ALTER TABLE ONLY public.skips
    ADD CONSTRAINT fk_skips_reader FOREIGN KEY (reader) REFERENCES public.users(id);
ALTER TABLE ONLY public.skips
    ADD CONSTRAINT fk_skips_reading_id FOREIGN KEY (reading_id) REFERENCES public.readings(id);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT fk_tokens_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT fk_tokens_user_id FOREIGN KEY (user_id) REFERENCES public.users(id);
ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT fk_webhooks_project_id FOREIGN KEY (project_id) REFERENCES public.projects(id);
