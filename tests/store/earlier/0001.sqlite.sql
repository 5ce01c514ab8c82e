BEGIN TRANSACTION;
CREATE TABLE answer (
	"key" TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	presentation_id INTEGER NOT NULL, 
	status INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	request_id TEXT, 
	model TEXT, 
	input_tokens INTEGER, 
	output_tokens INTEGER, 
	seconds FLOAT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_answer PRIMARY KEY ("key", attempt), 
	CONSTRAINT fk_answer_presentation_id FOREIGN KEY(presentation_id) REFERENCES presentation (id), 
	CONSTRAINT ck_answer_attempt CHECK (attempt >= 0)
);
INSERT INTO "answer" VALUES('k8',0,8,200,X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F404142434445464748494A4B4C4D4E4F505152535455565758595A5B5C5D5E5F606162636465666768696A6B6C6D6E6F707172737475767778797A7B7C7D7E7F808182838485868788898A8B8C8D8E8F909192939495969798999A9B9C9D9E9FA0A1A2A3A4A5A6A7A8A9AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBFC0C1C2C3C4C5C6C7C8C9CACBCCCDCECFD0D1D2D3D4D5D6D7D8D9DADBDCDDDEDFE0E1E2E3E4E5E6E7E8E9EAEBECEDEEEFF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF','req nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
','snapshot-1',7,NULL,3.00000000000000044408e-01,'2025-03-04 06:06:11.175834');
INSERT INTO "answer" VALUES('k9',0,9,500,X'','req nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
','snapshot-1',7,NULL,2.5,'2025-03-04 06:06:11.175834');
CREATE TABLE failure (
	id INTEGER NOT NULL, 
	presentation_id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_failure PRIMARY KEY (id), 
	CONSTRAINT fk_failure_presentation_id FOREIGN KEY(presentation_id) REFERENCES presentation (id)
);
INSERT INTO "failure" VALUES(1,9,'server_error','nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
','2025-03-04 06:06:11.461548');
CREATE TABLE guard_eval_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT guard_eval_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "guard_eval_version" VALUES('0001');
CREATE TABLE meta (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_meta PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('study_hash','as it was');
CREATE TABLE pair (
	id TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	prompt_id TEXT NOT NULL, 
	prompt TEXT NOT NULL, 
	method_a TEXT NOT NULL, 
	method_b TEXT NOT NULL, 
	continuation_a TEXT NOT NULL, 
	continuation_b TEXT NOT NULL, 
	text_a TEXT NOT NULL, 
	text_b TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	CONSTRAINT pk_pair PRIMARY KEY (id)
);
INSERT INTO "pair" VALUES('eb489a6176d775bc','wikinews','p0','Once 0 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
','guard','top_k(k=50)','ca0','cb0','first 0 ','nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 0',0);
INSERT INTO "pair" VALUES('887080e0873fb4a8','wikinews','p1','Once 1 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
','guard','top_k(k=50)','ca1','cb1','first 1 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ','nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 1',1);
INSERT INTO "pair" VALUES('fae6c2145871fd0d','wikinews','p2','Once 2 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
','guard','top_k(k=50)','ca2','cb2','first 2 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ','nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 2',2);
INSERT INTO "pair" VALUES('035657e6ff953403','wikinews','p3','Once 3 nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
','guard','top_k(k=50)','ca3','cb3','first 3 long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ','nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
 3',3);
CREATE TABLE presentation (
	id INTEGER NOT NULL, 
	pair_id TEXT NOT NULL, 
	rater_id INTEGER NOT NULL, 
	pool TEXT NOT NULL, 
	slot INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	first VARCHAR(1) NOT NULL, 
	handed_out DATETIME NOT NULL, 
	leased_until DATETIME NOT NULL, 
	rated_at DATETIME, 
	superseded BOOLEAN NOT NULL, 
	CONSTRAINT pk_presentation PRIMARY KEY (id), 
	CONSTRAINT fk_presentation_pair_id FOREIGN KEY(pair_id) REFERENCES pair (id), 
	CONSTRAINT fk_presentation_rater_id FOREIGN KEY(rater_id) REFERENCES rater (id), 
	CONSTRAINT uq_presentation_pair_id_pool_slot_attempt UNIQUE (pair_id, pool, slot, attempt), 
	CONSTRAINT ck_presentation_first CHECK (first IN ('a', 'b')), 
	CONSTRAINT ck_presentation_counted CHECK (slot >= 0 AND attempt >= 0)
);
INSERT INTO "presentation" VALUES(1,'fae6c2145871fd0d',1,'people',0,0,'a','2025-03-04 05:06:08.604408','2025-03-04 05:36:08.604408','2025-03-04 05:06:08.747265',0);
INSERT INTO "presentation" VALUES(2,'035657e6ff953403',3,'people',0,0,'b','2025-03-04 05:06:09.032979','2025-03-04 05:36:09.032979','2025-03-04 06:06:10.461549',1);
INSERT INTO "presentation" VALUES(3,'035657e6ff953403',2,'people',0,1,'b','2025-03-04 06:06:09.175836','2025-03-04 06:36:09.175836','2025-03-04 06:06:09.318693',0);
INSERT INTO "presentation" VALUES(4,'eb489a6176d775bc',2,'people',0,0,'a','2025-03-04 06:06:09.461550','2025-03-04 06:36:09.461550','2025-03-04 06:06:09.604407',0);
INSERT INTO "presentation" VALUES(5,'fae6c2145871fd0d',2,'people',1,0,'b','2025-03-04 06:06:09.747264','2025-03-04 06:36:09.747264','2025-03-04 06:06:09.890121',0);
INSERT INTO "presentation" VALUES(6,'887080e0873fb4a8',2,'people',0,0,'b','2025-03-04 06:06:10.032978','2025-03-04 06:36:10.032978','2025-03-04 06:06:10.175835',0);
INSERT INTO "presentation" VALUES(7,'035657e6ff953403',1,'people',1,0,'a','2025-03-04 06:06:10.604406','2025-03-04 06:36:10.604406',NULL,0);
INSERT INTO "presentation" VALUES(8,'eb489a6176d775bc',5,'model:judge',0,0,'a','2025-03-04 06:06:11.032977','2025-03-04 06:36:11.032977','2025-03-04 06:06:11.318691',0);
INSERT INTO "presentation" VALUES(9,'eb489a6176d775bc',5,'model:judge',1,0,'b','2025-03-04 06:06:11.032977','2025-03-04 06:36:11.032977',NULL,0);
INSERT INTO "presentation" VALUES(10,'fae6c2145871fd0d',5,'model:judge',0,0,'a','2025-03-04 06:06:11.032977','2025-03-04 06:36:11.032977',NULL,0);
CREATE TABLE rater (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	token_hash VARCHAR(64), 
	created_at DATETIME NOT NULL, 
	revoked_at DATETIME, 
	CONSTRAINT pk_rater PRIMARY KEY (id), 
	CONSTRAINT uq_rater_name UNIQUE (name), 
	CONSTRAINT uq_rater_token_hash UNIQUE (token_hash), 
	CONSTRAINT ck_rater_kind CHECK (kind IN ('person', 'model', 'simulated'))
);
INSERT INTO "rater" VALUES(1,'Ann','person','377af0e42cb383a9a08920c222dc63b5bcd44b965c3bbcaed1a643d16fd5b239','2025-03-04 05:06:08.032980',NULL);
INSERT INTO "rater" VALUES(2,'Ben nul 0000, half d83d, substitute 001a0000, 🦔 ''quoted'' \ back
','person','d8af1a9277786849eeabf587a7af1ef1e2f6c5f6b279f4ff2a1315c3331b5005','2025-03-04 05:06:08.175837',NULL);
INSERT INTO "rater" VALUES(3,'Late','person','03bcf0e36db559c69ebf8c4f2fdd56e84f39f8d2b14609fa484c2a27405036a5','2025-03-04 05:06:08.318694',NULL);
INSERT INTO "rater" VALUES(4,'Revoked','person','fb663330c1becf11710a571a9c22671261cb2d4e26e8509eba0a7d8225c9b913','2025-03-04 05:06:08.461551','2025-03-04 06:06:10.747263');
INSERT INTO "rater" VALUES(5,'judge','model',NULL,'2025-03-04 06:06:10.890120',NULL);
CREATE TABLE verdict (
	presentation_id INTEGER NOT NULL, 
	criterion TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	choice VARCHAR(3) NOT NULL, 
	at DATETIME NOT NULL, 
	seconds FLOAT, 
	active_seconds FLOAT, 
	CONSTRAINT pk_verdict PRIMARY KEY (presentation_id, criterion, revision), 
	CONSTRAINT fk_verdict_presentation_id FOREIGN KEY(presentation_id) REFERENCES presentation (id), 
	CONSTRAINT ck_verdict_choice CHECK (choice IN ('A', 'tie', 'B')), 
	CONSTRAINT ck_verdict_revision CHECK (revision >= 0)
);
INSERT INTO "verdict" VALUES(1,'fluency',0,'A','2025-03-04 05:06:08.747265',3.33333333333333314829e-01,0.1);
INSERT INTO "verdict" VALUES(1,'coherence',0,'tie','2025-03-04 05:06:08.747265',3.33333333333333314829e-01,0.1);
INSERT INTO "verdict" VALUES(1,'fluency',1,'B','2025-03-04 05:06:08.890122',NULL,NULL);
INSERT INTO "verdict" VALUES(3,'fluency',0,'A','2025-03-04 06:06:09.318693',1.0e-09,NULL);
INSERT INTO "verdict" VALUES(3,'coherence',0,'B','2025-03-04 06:06:09.318693',1.0e-09,NULL);
INSERT INTO "verdict" VALUES(4,'fluency',0,'A','2025-03-04 06:06:09.604407',1.0e-09,NULL);
INSERT INTO "verdict" VALUES(4,'coherence',0,'B','2025-03-04 06:06:09.604407',1.0e-09,NULL);
INSERT INTO "verdict" VALUES(5,'fluency',0,'A','2025-03-04 06:06:09.890121',1.0e-09,NULL);
INSERT INTO "verdict" VALUES(5,'coherence',0,'B','2025-03-04 06:06:09.890121',1.0e-09,NULL);
INSERT INTO "verdict" VALUES(6,'fluency',0,'A','2025-03-04 06:06:10.175835',1.0e-09,NULL);
INSERT INTO "verdict" VALUES(6,'coherence',0,'B','2025-03-04 06:06:10.175835',1.0e-09,NULL);
INSERT INTO "verdict" VALUES(2,'fluency',0,'tie','2025-03-04 06:06:10.461549',3600.25,NULL);
INSERT INTO "verdict" VALUES(2,'coherence',0,'tie','2025-03-04 06:06:10.461549',3600.25,NULL);
INSERT INTO "verdict" VALUES(8,'fluency',0,'B','2025-03-04 06:06:11.318691',NULL,NULL);
INSERT INTO "verdict" VALUES(8,'coherence',0,'A','2025-03-04 06:06:11.318691',NULL,NULL);
CREATE UNIQUE INDEX uq_presentation_holder ON presentation (pool, pair_id, slot) WHERE superseded = 0;
CREATE UNIQUE INDEX uq_presentation_once ON presentation (rater_id, pair_id) WHERE pool IN ('people', 'simulated');
CREATE INDEX ix_presentation_rater ON presentation (rater_id, rated_at);
CREATE INDEX ix_answer_presentation_id ON answer (presentation_id);
CREATE INDEX ix_failure_presentation_id ON failure (presentation_id);
CREATE TRIGGER verdict_no_update BEFORE UPDATE ON verdict BEGIN SELECT RAISE(ABORT, 'verdict is append-only'); END;
CREATE TRIGGER verdict_no_delete BEFORE DELETE ON verdict BEGIN SELECT RAISE(ABORT, 'verdict is append-only'); END;
CREATE TRIGGER answer_no_update BEFORE UPDATE ON answer BEGIN SELECT RAISE(ABORT, 'answer is append-only'); END;
CREATE TRIGGER answer_no_delete BEFORE DELETE ON answer BEGIN SELECT RAISE(ABORT, 'answer is append-only'); END;
COMMIT;
