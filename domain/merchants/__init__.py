"""Rules about merchants, partners and staff: fees, shares, payout keys, logos, passwords."""
