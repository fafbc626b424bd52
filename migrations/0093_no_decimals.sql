-- networks: the decimals of native currency, which scale money, are the setting NATIVE_DECIMALS.
alter table networks drop column decimals;
