-- The list of deliveries. Without a filter it is a range of webhook_delivery_feed; by state, by kind or by both it is
-- one range here for each pair. One index for the two filters, because every attempt writes each index anew.
CREATE INDEX webhook_delivery_state ON webhook_delivery (account_id, test, state, type, sequence);
