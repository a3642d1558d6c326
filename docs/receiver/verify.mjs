import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const CLOCK_S_MAX = 300; // five minutes
const MOST_BYTES = 64 * 1024;

// Whether a delivery is ours. `body`: the raw Buffer, before any parsing. `secrets`: those you hold, one or two.
export function verify(body, headers, secrets, now = Date.now() / 1000) {
  const timestamp = headers["x-service-timestamp"] ?? "";
  if (!/^[0-9]{1,12}$/.test(timestamp) || Math.abs(now - Number(timestamp)) > CLOCK_S_MAX) return false;
  const given = [headers["x-service-signature"], ...(headers["x-service-signature-previous"] ?? "").split(/, */)];
  return secrets.some((secret) => {
    const digest = createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex");
    const ours = Buffer.from(`sha256=${digest}`);
    return given.some((each) => {
      const theirs = Buffer.from(each ?? "");
      return theirs.length === ours.length && timingSafeEqual(theirs, ours);
    });
  });
}

// A server. `remember` stores an event under its event_id, unless it is there already; it may be asynchronous.
export function receiver(secrets, remember) {
  return createServer(async (request, response) => {
    const answer = (status) => response.writeHead(status).end();
    try {
      const parts = [];
      let size = 0;
      for await (const part of request) {
        size += part.length;
        if (size > MOST_BYTES) return answer(413);
        parts.push(part);
      }
      const body = Buffer.concat(parts);
      if (!verify(body, request.headers, secrets)) return answer(401);
      const event = JSON.parse(body.toString("utf8"));
      await remember(event.event_id, body); // INSERT INTO inbox ... ON CONFLICT (event_id) DO NOTHING
      answer(204); // at once, for duplicates too; the work is done from the inbox
    } catch {
      answer(500); // not stored: it will be sent again
    }
  });
}
