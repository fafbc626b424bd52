-- applications: what sponsors may send people for writes of an application in a rolling day, in wei: to one person, and to all of them.
-- Both or neither; null: nothing.
alter table applications
  add column sponsor_per_user numeric(78,0) check (sponsor_per_user >= 0),
  add column sponsor_per_application numeric(78,0) check (sponsor_per_application >= 0),
  add constraint applications_sponsor check ((sponsor_per_user is null) = (sponsor_per_application is null));
