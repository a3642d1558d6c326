// A token, a charge, the same charge looked up, and a refusal: with the types that openapi-typescript generates.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const env = process.env as Record<"BASE" | "CLIENT_ID" | "CLIENT_SECRET", string>;

const open = createClient<paths>({ baseUrl: env.BASE });
const { data: token } = await open.POST("/v1/oauth/token", {
  body: { grant_type: "client_credentials", client_id: env.CLIENT_ID, client_secret: env.CLIENT_SECRET },
  headers: { "Content-Type": "application/x-www-form-urlencoded" },
});
if (!token) throw new Error("no token");

const quita = createClient<paths>({
  baseUrl: env.BASE,
  headers: { Authorization: `Bearer ${token.access_token}` },
});
const { data: me } = await quita.GET("/v1/me", {});
if (!me) throw new Error("nobody");

const { data: charge, error } = await quita.POST("/v1/charges/pix", {
  params: { header: { "Idempotency-Key": crypto.randomUUID() } },
  body: { account_id: me.account_id, amount: "49.90", external_id: "order-1001" },
});
if (!charge) throw new Error(error.error.code);

const { data: found } = await quita.GET("/v1/charges/{charge_id}", {
  params: { path: { charge_id: charge.charge_id } },
});
if (found?.pix?.qr_code !== charge.pix?.qr_code) throw new Error("another charge");

const { error: refused } = await quita.GET("/v1/charges/{charge_id}", { params: { path: { charge_id: "nobody's" } } });
if (refused?.error.code !== "CHARGE_NOT_FOUND") throw new Error("nobody's charge was found");

const status: "pending" | "paid" | "expired" | "cancelled" | "refunded" | "failed" = charge.status;
console.log(status);
