"""What a value is: types, promotion, layout, and what is known of a value while compiling."""
