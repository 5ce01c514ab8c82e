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
CREATE FUNCTION public.answer_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'answer is append-only'; END $$;
CREATE FUNCTION public.assignment_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'assignment is append-only'; END $$;
CREATE FUNCTION public.gold_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'gold is append-only'; END $$;
CREATE FUNCTION public.note_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'note is append-only'; END $$;
CREATE FUNCTION public.pair_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'pair is append-only'; END $$;
CREATE FUNCTION public.verdict_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'verdict is append-only'; END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.answer (
    key text NOT NULL,
    attempt integer NOT NULL,
    presentation_id integer,
    status integer NOT NULL,
    body bytea NOT NULL,
    request_id text,
    model text,
    input_tokens integer,
    output_tokens integer,
    seconds double precision NOT NULL,
    at timestamp with time zone NOT NULL,
    fingerprint text,
    cached_tokens integer,
    reasoning_tokens integer,
    usd double precision,
    backend character varying(16) NOT NULL,
    CONSTRAINT ck_answer_attempt CHECK ((attempt >= 0))
);
COMMENT ON COLUMN public.answer.key IS 'SHA-256 of the canonical request and the sample''s index';
COMMENT ON COLUMN public.answer.attempt IS '0, 1, … for one key';
COMMENT ON COLUMN public.answer.status IS 'HTTP status';
COMMENT ON COLUMN public.answer.body IS 'the response as it came';
COMMENT ON COLUMN public.answer.model IS 'the snapshot the server says it used';
COMMENT ON COLUMN public.answer.fingerprint IS 'the server''s name for its configuration';
COMMENT ON COLUMN public.answer.backend IS 'chat, responses, batch or replay';
CREATE TABLE public.assignment (
    pair_id text NOT NULL,
    slot integer NOT NULL,
    rater_id integer NOT NULL,
    first character varying(1) NOT NULL,
    CONSTRAINT ck_assignment_first CHECK (((first)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[])))
);
COMMENT ON COLUMN public.assignment.rater_id IS 'for whom the slot is kept';
COMMENT ON COLUMN public.assignment.first IS 'which of the pair''s texts is shown as A';
CREATE TABLE public.batch (
    id integer NOT NULL,
    rater_id integer NOT NULL,
    run_id integer,
    provider_id text,
    input_file text,
    output_file text,
    error_file text,
    status text NOT NULL,
    made_at timestamp with time zone NOT NULL
);
COMMENT ON COLUMN public.batch.run_id IS 'who looks after it';
COMMENT ON COLUMN public.batch.provider_id IS 'the provider''s name for it, stored before it is polled';
COMMENT ON COLUMN public.batch.status IS 'new, the provider''s word, or done';
CREATE SEQUENCE public.batch_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.batch_id_seq OWNED BY public.batch.id;
CREATE TABLE public.failure (
    id integer NOT NULL,
    presentation_id integer NOT NULL,
    kind text NOT NULL,
    detail text NOT NULL,
    at timestamp with time zone NOT NULL
);
CREATE SEQUENCE public.failure_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.failure_id_seq OWNED BY public.failure.id;
CREATE TABLE public.gold (
    pair_id text NOT NULL,
    criterion text NOT NULL,
    expected character varying(1) NOT NULL,
    CONSTRAINT ck_gold_expected CHECK (((expected)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[])))
);
COMMENT ON COLUMN public.gold.pair_id IS 'a pair outside the study';
COMMENT ON COLUMN public.gold.expected IS 'which text is clearly better';
CREATE TABLE public.guard_eval_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.meta (
    key character varying(64) NOT NULL,
    value text NOT NULL
);
COMMENT ON COLUMN public.meta.key IS 'such as study_hash';
CREATE TABLE public.note (
    id integer NOT NULL,
    rater_id integer NOT NULL,
    presentation_id integer,
    kind character varying(16) NOT NULL,
    detail text NOT NULL,
    at timestamp with time zone NOT NULL
);
COMMENT ON COLUMN public.note.kind IS 'such as consent, comment or exclude';
COMMENT ON COLUMN public.note.detail IS 'text, or JSON, as the kind has it';
CREATE SEQUENCE public.note_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.note_id_seq OWNED BY public.note.id;
CREATE TABLE public.pair (
    id text NOT NULL,
    dataset text NOT NULL,
    prompt_id text NOT NULL,
    prompt text NOT NULL,
    method_a text NOT NULL,
    method_b text NOT NULL,
    continuation_a text NOT NULL,
    continuation_b text NOT NULL,
    text_a text NOT NULL,
    text_b text NOT NULL,
    "position" integer NOT NULL
);
COMMENT ON COLUMN public.pair.id IS 'hash of methods and continuations';
COMMENT ON COLUMN public.pair."position" IS 'its parity and the slot''s decide the sides';
CREATE TABLE public.presentation (
    id integer NOT NULL,
    pair_id text NOT NULL,
    rater_id integer NOT NULL,
    pool text NOT NULL,
    slot integer NOT NULL,
    attempt integer NOT NULL,
    first character varying(1) NOT NULL,
    handed_out timestamp with time zone NOT NULL,
    leased_until timestamp with time zone NOT NULL,
    rated_at timestamp with time zone,
    superseded boolean NOT NULL,
    withdrawn boolean DEFAULT false NOT NULL,
    role character varying(8) DEFAULT 'study'::character varying NOT NULL,
    run_id integer,
    CONSTRAINT ck_presentation_counted CHECK (((slot >= 0) AND (attempt >= 0))),
    CONSTRAINT ck_presentation_first CHECK (((first)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))),
    CONSTRAINT ck_presentation_role CHECK (((role)::text = ANY ((ARRAY['study'::character varying, 'gold'::character varying, 'repeat'::character varying])::text[])))
);
COMMENT ON COLUMN public.presentation.pool IS 'people, simulated, model: and the model''s name, or checks: and the rater''s id';
COMMENT ON COLUMN public.presentation.slot IS 'which of the pair''s planned showings in its pool: 0, 1, …';
COMMENT ON COLUMN public.presentation.attempt IS 'how often the slot had been handed out before';
COMMENT ON COLUMN public.presentation.first IS 'which of the pair''s texts is shown as A';
COMMENT ON COLUMN public.presentation.leased_until IS 'then, if unrated, the slot may go to another';
COMMENT ON COLUMN public.presentation.rated_at IS 'when the first verdict came';
COMMENT ON COLUMN public.presentation.superseded IS 'the slot went to another while this was unrated';
COMMENT ON COLUMN public.presentation.withdrawn IS 'the rater is excluded, and the slot free';
COMMENT ON COLUMN public.presentation.role IS 'study, gold or repeat';
COMMENT ON COLUMN public.presentation.run_id IS 'of a model''s: which run has claimed it';
CREATE SEQUENCE public.presentation_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.presentation_id_seq OWNED BY public.presentation.id;
CREATE TABLE public.rater (
    id integer NOT NULL,
    name text NOT NULL,
    kind character varying(16) NOT NULL,
    token_hash character varying(64),
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    excluded_at timestamp with time zone,
    source text,
    external_id text,
    CONSTRAINT ck_rater_kind CHECK (((kind)::text = ANY ((ARRAY['person'::character varying, 'model'::character varying, 'simulated'::character varying])::text[])))
);
COMMENT ON COLUMN public.rater.name IS 'a pseudonym, or a model''s name';
COMMENT ON COLUMN public.rater.token_hash IS 'SHA-256 of the invitation; the token is stored nowhere';
COMMENT ON COLUMN public.rater.revoked_at IS 'from then on the rater is let in no more';
COMMENT ON COLUMN public.rater.excluded_at IS 'set while the rater''s verdicts are left out';
COMMENT ON COLUMN public.rater.source IS 'where somebody nobody invited came from, such as prolific';
COMMENT ON COLUMN public.rater.external_id IS 'the source''s own name for the rater, who is paid by it';
CREATE SEQUENCE public.rater_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.rater_id_seq OWNED BY public.rater.id;
CREATE TABLE public.request (
    key text NOT NULL,
    attempt integer NOT NULL,
    rater_id integer NOT NULL,
    presentation_id integer,
    run_id integer,
    batch_id integer,
    style character varying(16) NOT NULL,
    state character varying(16) NOT NULL,
    reserved bigint,
    booked bigint,
    sent_at timestamp with time zone NOT NULL,
    settled_at timestamp with time zone,
    CONSTRAINT ck_request_attempt CHECK ((attempt >= 0)),
    CONSTRAINT ck_request_state CHECK (((state)::text = ANY ((ARRAY['open'::character varying, 'answered'::character varying, 'released'::character varying, 'lost'::character varying])::text[]))),
    CONSTRAINT ck_request_style CHECK (((style)::text = ANY ((ARRAY['chat'::character varying, 'responses'::character varying, 'batch'::character varying, 'replay'::character varying])::text[])))
);
COMMENT ON COLUMN public.request.key IS 'SHA-256 of the canonical request and the sample''s index';
COMMENT ON COLUMN public.request.attempt IS '0, 1, … for one key';
COMMENT ON COLUMN public.request.run_id IS 'which run sends it';
COMMENT ON COLUMN public.request.style IS 'chat, responses, batch or replay';
COMMENT ON COLUMN public.request.reserved IS 'the most it can cost, in billionths of a US dollar';
COMMENT ON COLUMN public.request.booked IS 'what counts: the reserve, then the cost, or 0 if not billed';
CREATE TABLE public.run (
    id integer NOT NULL,
    rater_id integer NOT NULL,
    host character varying(64) NOT NULL,
    process character varying(64) NOT NULL,
    started_at timestamp with time zone NOT NULL,
    leased_until timestamp with time zone NOT NULL,
    ended_at timestamp with time zone
);
COMMENT ON COLUMN public.run.host IS 'a hash that stands for the machine since it started';
COMMENT ON COLUMN public.run.process IS 'the process''s number there, and when it began';
COMMENT ON COLUMN public.run.leased_until IS 'then, unless renewed, its claims are free';
CREATE SEQUENCE public.run_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.run_id_seq OWNED BY public.run.id;
CREATE TABLE public.verdict (
    presentation_id integer NOT NULL,
    criterion text NOT NULL,
    revision integer NOT NULL,
    choice character varying(3) NOT NULL,
    at timestamp with time zone NOT NULL,
    seconds double precision,
    active_seconds double precision,
    CONSTRAINT ck_verdict_choice CHECK (((choice)::text = ANY ((ARRAY['A'::character varying, 'tie'::character varying, 'B'::character varying])::text[]))),
    CONSTRAINT ck_verdict_revision CHECK ((revision >= 0))
);
COMMENT ON COLUMN public.verdict.revision IS '0, 1, …; the highest is current';
COMMENT ON COLUMN public.verdict.choice IS 'by the letters on the screen, not by method';
CREATE TABLE public.visit (
    token_hash character varying(64) NOT NULL,
    rater_id integer NOT NULL,
    created_at timestamp with time zone NOT NULL
);
COMMENT ON COLUMN public.visit.token_hash IS 'SHA-256 of a token given to an enrolled rater';
ALTER TABLE ONLY public.batch ALTER COLUMN id SET DEFAULT nextval('public.batch_id_seq'::regclass);
ALTER TABLE ONLY public.failure ALTER COLUMN id SET DEFAULT nextval('public.failure_id_seq'::regclass);
ALTER TABLE ONLY public.note ALTER COLUMN id SET DEFAULT nextval('public.note_id_seq'::regclass);
ALTER TABLE ONLY public.presentation ALTER COLUMN id SET DEFAULT nextval('public.presentation_id_seq'::regclass);
ALTER TABLE ONLY public.rater ALTER COLUMN id SET DEFAULT nextval('public.rater_id_seq'::regclass);
ALTER TABLE ONLY public.run ALTER COLUMN id SET DEFAULT nextval('public.run_id_seq'::regclass);
INSERT INTO public.answer VALUES ('k8', 0, 8, 200, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 'req nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'snapshot-1', 7, NULL, 0.30000000000000004, '2025-03-04 06:06:11.461548+00', NULL, NULL, NULL, NULL, 'chat');
INSERT INTO public.answer VALUES ('k9', 0, 9, 500, '\x', 'req nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'snapshot-1', 7, NULL, 2.5, '2025-03-04 06:06:11.461548+00', NULL, NULL, NULL, NULL, 'chat');
INSERT INTO public.assignment VALUES ('2ad2d06ee573b12b', 1, 7, 'b');
INSERT INTO public.assignment VALUES ('b2edb86778f0d063', 1, 7, 'a');
INSERT INTO public.failure VALUES (1, 9, 'server_error', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', '2025-03-04 06:06:12.032976+00');
INSERT INTO public.gold VALUES ('2998abbfabcd235a', 'fluency', 'a');
INSERT INTO public.guard_eval_version VALUES ('0003');
INSERT INTO public.meta VALUES ('study_hash', 'as it was');
INSERT INTO public.note VALUES (1, 1, NULL, 'comment', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', '2025-03-04 06:06:12.175833+00');
INSERT INTO public.note VALUES (2, 3, NULL, 'exclude', '{"by": "owner", "reason": "nul \u0000, half d83d, substitute \u001a0000, 🦔 ''quoted'' \\ back\n"}', '2025-03-04 06:06:12.604404+00');
INSERT INTO public.pair VALUES ('eb489a6176d775bc', 'wikinews', 'p0', 'Once 0 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'guard', 'top_k(k=50)', 'ca0', 'cb0', 'first 0 ', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 0', 0);
INSERT INTO public.pair VALUES ('887080e0873fb4a8', 'wikinews', 'p1', 'Once 1 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'guard', 'top_k(k=50)', 'ca1', 'cb1', 'first 1 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 1', 1);
INSERT INTO public.pair VALUES ('fae6c2145871fd0d', 'wikinews', 'p2', 'Once 2 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'guard', 'top_k(k=50)', 'ca2', 'cb2', 'first 2 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 2', 2);
INSERT INTO public.pair VALUES ('035657e6ff953403', 'wikinews', 'p3', 'Once 3 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'guard', 'top_k(k=50)', 'ca3', 'cb3', 'first 3 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 3', 3);
INSERT INTO public.pair VALUES ('2998abbfabcd235a', 'wikinews', 'p9', 'Once 9 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'guard', 'top_k(k=50)', 'ca9', 'cb9', 'first 9 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 9', 9);
INSERT INTO public.pair VALUES ('2ad2d06ee573b12b', 'wikinews', 'p10', 'Once 10 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'guard', 'top_k(k=50)', 'ca10', 'cb10', 'first 10 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 10', 10);
INSERT INTO public.pair VALUES ('b2edb86778f0d063', 'wikinews', 'p11', 'Once 11 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'guard', 'top_k(k=50)', 'ca11', 'cb11', 'first 11 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ', 'nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 11', 11);
INSERT INTO public.presentation VALUES (1, 'fae6c2145871fd0d', 1, 'people', 0, 0, 'a', '2025-03-04 05:06:08.604408+00', '2025-03-04 05:36:08.604408+00', '2025-03-04 05:06:08.747265+00', false, false, 'study', NULL);
INSERT INTO public.presentation VALUES (3, 'fae6c2145871fd0d', 2, 'people', 1, 1, 'b', '2025-03-04 06:06:09.175836+00', '2025-03-04 06:36:09.175836+00', '2025-03-04 06:06:09.318693+00', false, false, 'study', NULL);
INSERT INTO public.presentation VALUES (4, '035657e6ff953403', 2, 'people', 1, 0, 'a', '2025-03-04 06:06:09.46155+00', '2025-03-04 06:36:09.46155+00', '2025-03-04 06:06:09.604407+00', false, false, 'study', NULL);
INSERT INTO public.presentation VALUES (5, 'eb489a6176d775bc', 2, 'people', 0, 0, 'a', '2025-03-04 06:06:09.747264+00', '2025-03-04 06:36:09.747264+00', '2025-03-04 06:06:09.890121+00', false, false, 'study', NULL);
INSERT INTO public.presentation VALUES (6, '887080e0873fb4a8', 2, 'people', 0, 0, 'b', '2025-03-04 06:06:10.032978+00', '2025-03-04 06:36:10.032978+00', '2025-03-04 06:06:10.175835+00', false, false, 'study', NULL);
INSERT INTO public.presentation VALUES (2, 'fae6c2145871fd0d', 3, 'people', 1, 0, 'b', '2025-03-04 05:06:09.032979+00', '2025-03-04 05:36:09.032979+00', '2025-03-04 06:06:10.461549+00', true, false, 'study', NULL);
INSERT INTO public.presentation VALUES (7, '035657e6ff953403', 1, 'people', 0, 0, 'b', '2025-03-04 06:06:10.604406+00', '2025-03-04 06:36:10.604406+00', NULL, false, false, 'study', NULL);
INSERT INTO public.presentation VALUES (9, 'eb489a6176d775bc', 5, 'model:judge', 1, 0, 'b', '2025-03-04 06:06:11.175834+00', '2025-03-04 06:11:11.175834+00', NULL, false, false, 'study', 1);
INSERT INTO public.presentation VALUES (10, 'fae6c2145871fd0d', 5, 'model:judge', 0, 0, 'a', '2025-03-04 06:06:11.175834+00', '2025-03-04 06:11:11.175834+00', NULL, false, false, 'study', 1);
INSERT INTO public.presentation VALUES (8, 'eb489a6176d775bc', 5, 'model:judge', 0, 0, 'a', '2025-03-04 06:06:11.175834+00', '2025-03-04 06:11:11.175834+00', '2025-03-04 06:06:11.890119+00', false, false, 'study', 1);
INSERT INTO public.rater VALUES (1, 'Ann', 'person', 'ba5931d19e704d19b7c740794e8895d0802ba83d364ea40667244d3ce43c4d1c', '2025-03-04 05:06:08.03298+00', NULL, NULL, NULL, NULL);
INSERT INTO public.rater VALUES (2, 'Ben nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
', 'person', '866363f819d4c6e93cafde672d7bfd7aacd7324f571906eec38272310866bf23', '2025-03-04 05:06:08.175837+00', NULL, NULL, NULL, NULL);
INSERT INTO public.rater VALUES (4, 'Revoked', 'person', '578e9c213dade7a074c735e74fc640cd721b4597f17f8f15681f64a78aabb02f', '2025-03-04 05:06:08.461551+00', '2025-03-04 06:06:10.747263+00', NULL, NULL, NULL);
INSERT INTO public.rater VALUES (5, 'judge', 'model', NULL, '2025-03-04 06:06:10.89012+00', NULL, NULL, NULL, NULL);
INSERT INTO public.rater VALUES (6, 'P-1', 'person', NULL, '2025-03-04 06:06:12.31869+00', NULL, NULL, 'prolific', '5f3e');
INSERT INTO public.rater VALUES (7, 'Planned', 'person', '5dd1cb73dd5b5ca4b79e229983869a11a0b478eab79d60bb27b180d06d6ee487', '2025-03-04 06:06:12.461547+00', NULL, NULL, NULL, NULL);
INSERT INTO public.rater VALUES (3, 'Late', 'person', 'c0d331f9212c2c92b027269aa90930a87d4e1e05f17d598de875e89038ed4ade', '2025-03-04 05:06:08.318694+00', NULL, '2025-03-04 06:06:12.604404+00', NULL, NULL);
INSERT INTO public.request VALUES ('k10', 0, 5, 10, 1, NULL, 'chat', 'open', 333334, 333334, '2025-03-04 06:06:11.318691+00', NULL);
INSERT INTO public.request VALUES ('k8', 0, 5, 8, 1, NULL, 'chat', 'answered', 333334, 333334, '2025-03-04 06:06:11.318691+00', '2025-03-04 06:06:11.604405+00');
INSERT INTO public.request VALUES ('k9', 0, 5, 9, 1, NULL, 'chat', 'answered', 333334, 333334, '2025-03-04 06:06:11.318691+00', '2025-03-04 06:06:11.747262+00');
INSERT INTO public.run VALUES (1, 5, '4989ed591284535b49a2893b321549b9d77f122f4c7649f2d396eb945ba3346e', '3632:1428784', '2025-03-04 06:06:11.032977+00', '2025-03-04 06:11:11.175834+00', NULL);
INSERT INTO public.verdict VALUES (1, 'fluency', 0, 'A', '2025-03-04 05:06:08.747265+00', 0.3333333333333333, 0.1);
INSERT INTO public.verdict VALUES (1, 'coherence', 0, 'tie', '2025-03-04 05:06:08.747265+00', 0.3333333333333333, 0.1);
INSERT INTO public.verdict VALUES (1, 'fluency', 1, 'B', '2025-03-04 05:06:08.890122+00', NULL, NULL);
INSERT INTO public.verdict VALUES (3, 'fluency', 0, 'A', '2025-03-04 06:06:09.318693+00', 1e-09, NULL);
INSERT INTO public.verdict VALUES (3, 'coherence', 0, 'B', '2025-03-04 06:06:09.318693+00', 1e-09, NULL);
INSERT INTO public.verdict VALUES (4, 'fluency', 0, 'A', '2025-03-04 06:06:09.604407+00', 1e-09, NULL);
INSERT INTO public.verdict VALUES (4, 'coherence', 0, 'B', '2025-03-04 06:06:09.604407+00', 1e-09, NULL);
INSERT INTO public.verdict VALUES (5, 'fluency', 0, 'A', '2025-03-04 06:06:09.890121+00', 1e-09, NULL);
INSERT INTO public.verdict VALUES (5, 'coherence', 0, 'B', '2025-03-04 06:06:09.890121+00', 1e-09, NULL);
INSERT INTO public.verdict VALUES (6, 'fluency', 0, 'A', '2025-03-04 06:06:10.175835+00', 1e-09, NULL);
INSERT INTO public.verdict VALUES (6, 'coherence', 0, 'B', '2025-03-04 06:06:10.175835+00', 1e-09, NULL);
INSERT INTO public.verdict VALUES (2, 'fluency', 0, 'tie', '2025-03-04 06:06:10.461549+00', 3600.25, NULL);
INSERT INTO public.verdict VALUES (2, 'coherence', 0, 'tie', '2025-03-04 06:06:10.461549+00', 3600.25, NULL);
INSERT INTO public.verdict VALUES (8, 'fluency', 0, 'B', '2025-03-04 06:06:11.890119+00', NULL, NULL);
INSERT INTO public.verdict VALUES (8, 'coherence', 0, 'A', '2025-03-04 06:06:11.890119+00', NULL, NULL);
INSERT INTO public.visit VALUES ('3aaa98142e4c80f613000003c98b2a85f498e2b6e60698c2ef7e84f4d016bf11', 6, '2025-03-04 06:06:12.31869+00');
SELECT pg_catalog.setval('public.batch_id_seq', 1, false);
SELECT pg_catalog.setval('public.failure_id_seq', 1, true);
SELECT pg_catalog.setval('public.note_id_seq', 2, true);
SELECT pg_catalog.setval('public.presentation_id_seq', 10, true);
SELECT pg_catalog.setval('public.rater_id_seq', 7, true);
SELECT pg_catalog.setval('public.run_id_seq', 1, true);
ALTER TABLE ONLY public.guard_eval_version
    ADD CONSTRAINT guard_eval_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.answer
    ADD CONSTRAINT pk_answer PRIMARY KEY (key, attempt);
ALTER TABLE ONLY public.assignment
    ADD CONSTRAINT pk_assignment PRIMARY KEY (pair_id, slot);
ALTER TABLE ONLY public.batch
    ADD CONSTRAINT pk_batch PRIMARY KEY (id);
ALTER TABLE ONLY public.failure
    ADD CONSTRAINT pk_failure PRIMARY KEY (id);
ALTER TABLE ONLY public.gold
    ADD CONSTRAINT pk_gold PRIMARY KEY (pair_id, criterion);
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT pk_meta PRIMARY KEY (key);
ALTER TABLE ONLY public.note
    ADD CONSTRAINT pk_note PRIMARY KEY (id);
ALTER TABLE ONLY public.pair
    ADD CONSTRAINT pk_pair PRIMARY KEY (id);
ALTER TABLE ONLY public.presentation
    ADD CONSTRAINT pk_presentation PRIMARY KEY (id);
ALTER TABLE ONLY public.rater
    ADD CONSTRAINT pk_rater PRIMARY KEY (id);
ALTER TABLE ONLY public.request
    ADD CONSTRAINT pk_request PRIMARY KEY (key, attempt);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT pk_run PRIMARY KEY (id);
ALTER TABLE ONLY public.verdict
    ADD CONSTRAINT pk_verdict PRIMARY KEY (presentation_id, criterion, revision);
ALTER TABLE ONLY public.visit
    ADD CONSTRAINT pk_visit PRIMARY KEY (token_hash);
ALTER TABLE ONLY public.assignment
    ADD CONSTRAINT uq_assignment_rater_id_pair_id UNIQUE (rater_id, pair_id);
ALTER TABLE ONLY public.presentation
    ADD CONSTRAINT uq_presentation_pair_id_pool_slot_attempt UNIQUE (pair_id, pool, slot, attempt);
ALTER TABLE ONLY public.rater
    ADD CONSTRAINT uq_rater_name UNIQUE (name);
ALTER TABLE ONLY public.rater
    ADD CONSTRAINT uq_rater_token_hash UNIQUE (token_hash);
CREATE INDEX ix_answer_presentation_id ON public.answer USING btree (presentation_id);
CREATE INDEX ix_batch_rater_id ON public.batch USING btree (rater_id);
CREATE INDEX ix_failure_presentation_id ON public.failure USING btree (presentation_id);
CREATE INDEX ix_note_presentation_id ON public.note USING btree (presentation_id);
CREATE INDEX ix_note_rater_id ON public.note USING btree (rater_id);
CREATE INDEX ix_presentation_rater ON public.presentation USING btree (rater_id, rated_at);
CREATE INDEX ix_request_batch_id ON public.request USING btree (batch_id);
CREATE INDEX ix_request_booked ON public.request USING btree (booked);
CREATE INDEX ix_request_presentation_id ON public.request USING btree (presentation_id);
CREATE INDEX ix_request_rater_id ON public.request USING btree (rater_id);
CREATE INDEX ix_run_rater_id ON public.run USING btree (rater_id);
CREATE INDEX ix_visit_rater_id ON public.visit USING btree (rater_id);
CREATE UNIQUE INDEX uq_presentation_holder ON public.presentation USING btree (pool, pair_id, slot) WHERE ((superseded = false) AND (withdrawn = false));
CREATE UNIQUE INDEX uq_presentation_once ON public.presentation USING btree (rater_id, pair_id) WHERE (pool = ANY (ARRAY['people'::text, 'simulated'::text]));
CREATE UNIQUE INDEX uq_rater_source ON public.rater USING btree (source, external_id);
CREATE TRIGGER answer_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.answer FOR EACH STATEMENT EXECUTE FUNCTION public.answer_append_only();
CREATE TRIGGER assignment_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.assignment FOR EACH STATEMENT EXECUTE FUNCTION public.assignment_append_only();
CREATE TRIGGER gold_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.gold FOR EACH STATEMENT EXECUTE FUNCTION public.gold_append_only();
CREATE TRIGGER note_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.note FOR EACH STATEMENT EXECUTE FUNCTION public.note_append_only();
CREATE TRIGGER pair_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.pair FOR EACH STATEMENT EXECUTE FUNCTION public.pair_append_only();
CREATE TRIGGER verdict_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.verdict FOR EACH STATEMENT EXECUTE FUNCTION public.verdict_append_only();
ALTER TABLE ONLY public.answer
    ADD CONSTRAINT fk_answer_presentation_id FOREIGN KEY (presentation_id) REFERENCES public.presentation(id);
ALTER TABLE ONLY public.assignment
    ADD CONSTRAINT fk_assignment_pair_id FOREIGN KEY (pair_id) REFERENCES public.pair(id);
ALTER TABLE ONLY public.assignment
    ADD CONSTRAINT fk_assignment_rater_id FOREIGN KEY (rater_id) REFERENCES public.rater(id);
ALTER TABLE ONLY public.batch
    ADD CONSTRAINT fk_batch_rater_id FOREIGN KEY (rater_id) REFERENCES public.rater(id);
ALTER TABLE ONLY public.batch
    ADD CONSTRAINT fk_batch_run_id FOREIGN KEY (run_id) REFERENCES public.run(id);
ALTER TABLE ONLY public.failure
    ADD CONSTRAINT fk_failure_presentation_id FOREIGN KEY (presentation_id) REFERENCES public.presentation(id);
ALTER TABLE ONLY public.gold
    ADD CONSTRAINT fk_gold_pair_id FOREIGN KEY (pair_id) REFERENCES public.pair(id);
ALTER TABLE ONLY public.note
    ADD CONSTRAINT fk_note_presentation_id FOREIGN KEY (presentation_id) REFERENCES public.presentation(id);
ALTER TABLE ONLY public.note
    ADD CONSTRAINT fk_note_rater_id FOREIGN KEY (rater_id) REFERENCES public.rater(id);
ALTER TABLE ONLY public.presentation
    ADD CONSTRAINT fk_presentation_pair_id FOREIGN KEY (pair_id) REFERENCES public.pair(id);
ALTER TABLE ONLY public.presentation
    ADD CONSTRAINT fk_presentation_rater_id FOREIGN KEY (rater_id) REFERENCES public.rater(id);
ALTER TABLE ONLY public.presentation
    ADD CONSTRAINT fk_presentation_run_id FOREIGN KEY (run_id) REFERENCES public.run(id);
ALTER TABLE ONLY public.request
    ADD CONSTRAINT fk_request_batch_id FOREIGN KEY (batch_id) REFERENCES public.batch(id);
ALTER TABLE ONLY public.request
    ADD CONSTRAINT fk_request_presentation_id FOREIGN KEY (presentation_id) REFERENCES public.presentation(id);
ALTER TABLE ONLY public.request
    ADD CONSTRAINT fk_request_rater_id FOREIGN KEY (rater_id) REFERENCES public.rater(id);
ALTER TABLE ONLY public.request
    ADD CONSTRAINT fk_request_run_id FOREIGN KEY (run_id) REFERENCES public.run(id);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT fk_run_rater_id FOREIGN KEY (rater_id) REFERENCES public.rater(id);
ALTER TABLE ONLY public.verdict
    ADD CONSTRAINT fk_verdict_presentation_id FOREIGN KEY (presentation_id) REFERENCES public.presentation(id);
ALTER TABLE ONLY public.visit
    ADD CONSTRAINT fk_visit_rater_id FOREIGN KEY (rater_id) REFERENCES public.rater(id);
