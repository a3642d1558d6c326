<?php

// A receiver of webhooks to copy and change: PHP only, with an inbox of one file per event.
//
//     WEBHOOK_SECRETS="whsec_..." php -S 127.0.0.1:9999 receiver.php
//
// A delivery is verified, stored under its event_id and answered. Your shop works from the inbox, and reads the charge
// through the API before it acts. Environment: FOLDER (inbox).

require __DIR__ . '/verify.php';

$folder = getenv('FOLDER') ?: 'inbox';
$secrets = preg_split('/\s+/', getenv('WEBHOOK_SECRETS') ?: '', -1, PREG_SPLIT_NO_EMPTY);
if ($secrets === []) {
    error_log('receiver.php: set WEBHOOK_SECRETS');
    http_response_code(500); // the delivery is sent again, and accepted once the secret is set
    exit(1);
}

$remember = function (string $eventId, string $body) use ($folder): void {
    if (!preg_match('/\A[0-9a-f-]{36}\z/', $eventId)) {
        throw new RuntimeException('no event_id');
    }
    if (!is_dir($folder)) {
        @mkdir($folder, 0700, true);
    }
    // Written under another name and then renamed, so that a full disk or a crash leaves no half event. An event that
    // arrives again replaces the file with the same bytes.
    $part = "$folder/$eventId." . bin2hex(random_bytes(8));
    if (@file_put_contents($part, $body) !== strlen($body) || !@rename($part, "$folder/$eventId.json")) {
        @unlink($part);
        throw new RuntimeException('the inbox takes nothing');
    }
};

try {
    http_response_code(receive(file_get_contents('php://input'), getallheaders(), $secrets, $remember));
} catch (Throwable) {
    http_response_code(500); // not stored: it will be sent again
}
