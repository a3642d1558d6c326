"""Operations that a process batches or coordinates over requests: charge lookups and changes, PIX, boletos, money."""
