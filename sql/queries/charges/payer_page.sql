-- name: by_public_id
-- Everything the payer's page shows, in one row. The public_id alone is the key (its unique index): a payer has no
-- account. Values that decide something come from columns, values only shown from the document. The payer's own data is
-- not read, since anyone with the link can open the page.
SELECT account.name, account.document, charge_view.test, charge_view.status, charge_view.payment_method,
       charge_view.amount_cents, charge_view.due_date,
       -- As in `states`.
       charge_view.version + CASE charge_view.status WHEN 'expired' THEN
           coalesce(asked.times + (asked.answered_by IS NOT NULL)::integer, 0) ELSE 0 END
       + CASE WHEN charge_view.status IN ('pending', 'expired') THEN (
           SELECT count(*) + count(*) FILTER (WHERE p.refunded_cents + p.reversed_cents >= p.amount_cents)
           FROM read_payment r JOIN payment p ON p.payment_id = r.payment_id AND p.account_id = r.account_id
           WHERE r.charge_id = charge_view.charge_id) ELSE 0 END AS version,
       charge_view.doc,
       coalesce(sandbox_clock.ahead_s, 0) AS ahead_s, account.kyc = 'blocked' AND NOT charge_view.test AS suspended,
       account.contact_phone, account.contact_whatsapp, account.contact_email,
       merchant_logo.digest AS logo, coalesce(merchant_logo.width, 0) AS logo_width,
       coalesce(merchant_logo.height, 0) AS logo_height,
       -- The latest anomalous payment that is not fully returned. None if as much was returned as was paid in excess,
       -- from whichever payment. 'excess': the payment settled the charge but was more than the amount due. The
       -- payments of one charge are few rows of read_payment_charge.
       ARRAY(SELECT CASE WHEN settles THEN 'excess' ELSE anomaly END FROM (
           SELECT r.paid_at, r.payment_id, r.anomaly, p.settles, p.refunded_cents + p.reversed_cents < p.amount_cents AS kept,
                  sum(p.refunded_cents + p.reversed_cents) OVER () AS back_cents,
                  sum(CASE WHEN r.anomaly IS NULL THEN 0
                           WHEN p.settles THEN greatest(p.amount_cents - charge_view.amount_cents, 0)
                           ELSE p.amount_cents END) OVER () AS excess_cents
           FROM read_payment r JOIN payment p ON p.payment_id = r.payment_id AND p.account_id = r.account_id
           WHERE r.charge_id = charge_view.charge_id) AS paid
             WHERE anomaly IS NOT NULL AND kept AND back_cents < excess_cents
             ORDER BY paid_at DESC, payment_id DESC LIMIT 1) AS anomalies,
       CASE WHEN charge_view.status IN ('paid', 'refunded') THEN (
           SELECT coalesce(sum(p.amount_cents), 0)
           FROM read_payment r JOIN payment p ON p.payment_id = r.payment_id AND p.account_id = r.account_id
           WHERE r.charge_id = charge_view.charge_id) ELSE 0 END::bigint AS received_cents,
       coalesce(asked.times, 0) AS asked_times, asked.asked_on, answer.public_id AS answered_by,
       -- The bank at which the paid boleto is registered.
       CASE WHEN charge_view.status IN ('paid', 'refunded') AND charge_view.nosso_numero IS NOT NULL THEN (
           SELECT bank FROM boleto WHERE charge_id = charge_view.charge_id AND account_id = charge_view.account_id
       ) END AS paid_bank
FROM charge_view
JOIN account ON account.account_id = charge_view.account_id
LEFT JOIN merchant_logo ON merchant_logo.account_id = charge_view.account_id AND account.kyc <> 'blocked'
LEFT JOIN sandbox_clock ON charge_view.test AND sandbox_clock.account_id = charge_view.account_id
LEFT JOIN second_copy_request asked ON asked.charge_id = charge_view.charge_id
LEFT JOIN charge_view answer ON answer.charge_id = asked.answered_by AND answer.account_id = charge_view.account_id
WHERE charge_view.public_id = :public_id;

-- name: states
-- Tells open pages whether they are up to date. All open pages of a process are asked together, a thousand links per
-- statement, each one look-up in the unique index. expires_at is read from the document for pending charges only, the
-- one status that ends by time; it is given in real time, whatever the sandbox's clock. A second copy requested or
-- issued for an expired charge counts as a new version. So do a payment that did not settle the charge and its full
-- return: the charge does not change, but its page shows both. That costs one more look-up, in read_payment_charge,
-- which mostly finds nothing.
SELECT r.public_id, r.status,
       r.version + coalesce(q.times + (q.answered_by IS NOT NULL)::integer, 0)
       + CASE WHEN r.status IN ('pending', 'expired') THEN (
           SELECT count(*) + count(*) FILTER (WHERE p.refunded_cents + p.reversed_cents >= p.amount_cents)
           FROM read_payment o JOIN payment p ON p.payment_id = o.payment_id AND p.account_id = o.account_id
           WHERE o.charge_id = r.charge_id) ELSE 0 END AS version,
       a.kyc = 'blocked' AND NOT r.test AS suspended,
       CASE WHEN r.status = 'pending'
            THEN (r.doc ->> 'expires_at')::timestamptz - interval '1 second' * coalesce(k.ahead_s, 0) END AS expires_at
FROM charge_view r
JOIN account a ON a.account_id = r.account_id
LEFT JOIN sandbox_clock k ON r.test AND k.account_id = r.account_id
LEFT JOIN second_copy_request q ON r.status = 'expired' AND q.charge_id = r.charge_id
WHERE r.public_id = ANY(:public_ids::text[]);
