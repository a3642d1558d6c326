// A receiver's types: each kind of event narrows to its own body. This file is only compiled, not run.
import type { components } from "./api.js";

type Schemas = components["schemas"];
type Event =
  | Schemas["PaymentReceivedEvent"]
  | Schemas["ChargeCancelledEvent"]
  | Schemas["RefundFailedEvent"]
  | Schemas["WithdrawalSucceededEvent"];

export function describe(event: Event): string {
  switch (event.event) {
    case "payment.received":
      return `${event.charge_id} was paid at ${event.paid_at}`;
    case "charge.cancelled":
      return `${event.charge_id}: ${event.reason satisfies "cancelled" | "paid_externally"}`;
    case "refund.failed":
      return `${event.refund_id}: ${event.failure_code ?? "no reason"}`;
    case "withdrawal.succeeded":
      return `${event.withdrawal_id}: ${event.amount}`;
  }
}
