"""The adapter for Banco do Brasil: API Pix v2 and Cobrancas v2."""
