"""The shared vocabulary: frozen dataclasses that cross file and layer borders. numpy only."""
