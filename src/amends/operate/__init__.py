"""Operations on a journal that the command line and a server share: health, proof."""
