"""Commands about merchants and partners (integradores): registration, KYC, keys, shares, export and import."""
