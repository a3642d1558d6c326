-- How many payments callbacks tell of one boleto is asked by its number.
CREATE INDEX bank_hint_txid ON bank_hint (txid) WHERE state = 'waiting';
