-- application_providers: where the keys of the issuer are, which belongs to the name as the issuer does; null: by discovery.
alter table application_providers add column jwks_uri text;
update application_providers set jwks_uri = (
  select one ->> 'jwksUri' from applications, jsonb_array_elements(applications.issuers) as one
  where applications.client_id = application_providers.client_id and one ->> 'provider' = application_providers.provider);
