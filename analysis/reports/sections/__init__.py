"""The report's sections: what each says, shows and exports."""
