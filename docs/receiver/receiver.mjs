// A receiver of webhooks to copy and change: Node.js only, with an inbox of one file per event.
//
//     WEBHOOK_SECRETS="whsec_..." node receiver.mjs
//
// A delivery is verified, stored under its event_id and answered. Your shop works from the inbox, and reads the charge
// through the API before it acts. Environment: HOST and PORT (127.0.0.1, 9999), FOLDER (inbox).

import { randomUUID } from "node:crypto";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { receiver } from "./verify.mjs";

const folder = process.env.FOLDER ?? "inbox";
const secrets = (process.env.WEBHOOK_SECRETS ?? "").split(/\s+/).filter(Boolean);
if (secrets.length === 0) {
  console.error("receiver.mjs: set WEBHOOK_SECRETS");
  process.exit(1);
}
await mkdir(folder, { recursive: true });

async function remember(eventId, body) {
  if (!/^[0-9a-f-]{36}$/.test(eventId)) throw new Error("no event_id");
  // Written under another name and then renamed, so that a full disk or a crash leaves no half event. An event that
  // arrives again replaces the file with the same bytes.
  const part = join(folder, `${eventId}.${randomUUID()}`);
  try {
    await writeFile(part, body);
    await rename(part, join(folder, `${eventId}.json`));
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

const port = Number(process.env.PORT ?? 9999);
const host = process.env.HOST ?? "127.0.0.1";
receiver(secrets, remember).listen(port, host, () => console.log(`waiting for webhooks at http://${host}:${port}/`));
