<?php

const CLOCK_S_MAX = 300; // five minutes

/** Whether a delivery is ours. $body: the raw bytes, before any parsing. $secrets: those you hold, one or two. */
function verify(string $body, array $headers, array $secrets, ?int $now = null): bool
{
    $headers = array_change_key_case($headers);
    $timestamp = $headers['x-service-timestamp'] ?? '';
    if (!preg_match('/\A[0-9]{1,12}\z/', $timestamp) || abs(($now ?? time()) - (int) $timestamp) > CLOCK_S_MAX) {
        return false;
    }
    foreach ($secrets as $secret) {
        $ours = 'sha256=' . hash_hmac('sha256', $timestamp . '.' . $body, $secret);
        $previous = $headers['x-service-signature-previous'] ?? '';
        foreach ([$headers['x-service-signature'] ?? '', ...preg_split('/, */', $previous)] as $given) {
            if (hash_equals($ours, $given)) {
                return true;
            }
        }
    }
    return false;
}

/** The HTTP status to answer with. $remember stores an event under its event_id, unless it is there already. */
function receive(string $body, array $headers, array $secrets, callable $remember): int
{
    if (!verify($body, $headers, $secrets)) {
        return 401;
    }
    $event = json_decode($body, true, 32, JSON_THROW_ON_ERROR);
    $remember($event['event_id'], $body); // INSERT INTO inbox ... ON CONFLICT (event_id) DO NOTHING
    return 204; // at once, for duplicates too; the work is done from the inbox
}

// In the script your web server runs:
//     http_response_code(receive(file_get_contents('php://input'), getallheaders(), $secrets, $remember));
